// Returns the number of the thing that has the focus, and whether a person sees that it has it.
() => {
  const node = document.activeElement;
  if (!node || node === document.body) return null;
  const style = getComputedStyle(node);
  const seen = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
  const group = node.type === "radio" ? document.querySelector(`input[type=radio][name="${CSS.escape(node.name)}"]`) : node;
  return { number: (group || node).dataset.thing ?? null, seen, name: `${node.localName} ${(node.textContent || "").trim().slice(0, 50)}` };
}
