// The AI SDK against the gateway:
//
//     node program.mjs SCENARIO BASE_URL
//
// prints as JSON what the client saw. `test_ai_sdk.py` says what that must be.

import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, Output, generateObject, generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

const [scenario, baseURL] = process.argv.slice(2);
const compatible = createOpenAICompatible({
  name: 'toolcaddie',
  baseURL,
  apiKey: 'unused',
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const openai = createOpenAI({ baseURL, apiKey: 'unused' });
const model = compatible('gpt-test');

const weather = z.object({ city: z.string(), degrees: z.number() });
const getWeather = tool({
  description: 'The weather of a city.',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `${city}: 8 degrees`,
});

function office() {
  const verbs = ['create', 'delete', 'list', 'update', 'approve', 'export', 'archive', 'print', 'merge', 'share'];
  const nouns = ['invoice', 'shipment', 'customer', 'ticket', 'contract', 'supplier', 'vehicle', 'campaign', 'payroll'];
  const named = verbs.flatMap((verb) => nouns.map((noun) => `${verb}_${noun}`));
  const made = (name) =>
    tool({ description: `${name} of the office.`, inputSchema: z.object({ id: z.string() }), execute: async () => name });
  return Object.fromEntries(named.map((name) => [name, made(name)]));
}

const tools = { ...office(), get_weather: getWeather };
const prompt = 'what is the weather in Oslo?';
const steps = stepCountIs(5);

async function agentOf(given) {
  const result = await generateText({ model: given, prompt, tools, stopWhen: steps });
  const calls = result.steps.flatMap((step) => step.toolCalls.map((call) => [call.toolName, call.input]));
  return { text: result.text, calls, tokens: result.totalUsage.totalTokens };
}

async function failing(options) {
  try {
    await generateText({ model, prompt, tools: office(), maxRetries: 0, ...options });
    return {};
  } catch (error) {
    return { error: APICallError.isInstance(error), status: error.statusCode, told: error.message };
  }
}

const scenarios = {
  async plain() {
    const { text, usage } = await generateText({ model, prompt });
    return { text, tokens: usage.totalTokens };
  },
  async stream() {
    const result = streamText({ model, prompt, tools });
    let text = '';
    for await (const piece of result.textStream) text += piece;
    return { text, tokens: (await result.totalUsage).totalTokens };
  },
  agent: () => agentOf(model),
  agent_of_openai: () => agentOf(openai.chat('gpt-test')),
  async streamed_agent() {
    const result = streamText({ model, prompt, tools, stopWhen: steps });
    const calls = [];
    for await (const part of result.fullStream) if (part.type === 'tool-call') calls.push([part.toolName, part.input]);
    return { text: await result.text, calls };
  },
  async turns() {
    const messages = [];
    for (const content of ['create an invoice', prompt, 'archive the ticket']) {
      messages.push({ role: 'user', content });
      messages.push(...(await generateText({ model, messages, tools })).response.messages);
    }
    return { messages: messages.length };
  },
  async object() {
    return { answer: (await generateObject({ model, prompt, schema: weather })).object };
  },
  async output() {
    const result = await generateText({
      model, prompt, tools, stopWhen: steps, output: Output.object({ schema: weather }),
    });
    return { answer: result.output };
  },
  async required() {
    const { toolCalls } = await generateText({
      model, prompt: 'archive the ticket', tools, toolChoice: { type: 'tool', toolName: 'get_weather' },
    });
    return { calls: toolCalls.map((call) => call.toolName) };
  },
  async final_tool() {
    const answer = tool({ description: 'Gives the answer.', inputSchema: weather });
    const result = await generateText({
      model, prompt: 'archive the ticket', tools: { ...tools, give_answer: answer }, toolChoice: 'required',
      headers: { 'x-toolcaddie-pin': 'give_answer' }, stopWhen: steps,
    });
    return { answer: result.toolCalls.map((call) => call.input)[0] };
  },
  async retried() {
    return { text: (await generateText({ model, prompt, tools: office(), maxRetries: 1 })).text };
  },
  refused: () => failing({}),
  agent_of_responses: () => agentOf(openai('gpt-test')),
  async left() {
    const abort = new AbortController();
    const result = streamText({ model, prompt, tools: office(), abortSignal: abort.signal, onError() {} });
    for await (const _ of result.textStream) {
      abort.abort();
      break;
    }
    return {};
  },
};

console.log(JSON.stringify(await scenarios[scenario]()));
