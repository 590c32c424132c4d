// Runs a tool of type `typescript` inside the sandbox: loads tool.ts beside this file, calls `run` with the arguments of
// arguments.json, and writes {"success": ..., "content": ...} to the standard output.
import { readFileSync, writeSync } from "node:fs";

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value) ?? "null");
console.log = console.info = console.debug = console.error;
const tool = await import(new URL("./tool.ts", import.meta.url).href);
const outcome = await tool.run(JSON.parse(readFileSync(new URL("./arguments.json", import.meta.url), "utf8")));
const keys = outcome && typeof outcome === "object" ? Object.keys(outcome).sort().join() : "";
const answer = keys === "content,success" ? outcome : { success: true, content: outcome };
writeSync(1, JSON.stringify({ success: Boolean(answer.success), content: text(answer.content) }));
