// Gives each thing that a person can use a number, and returns the numbers with their descriptions. Things in closed details are left
// out: the key that opens them is tested on their summaries.
() => {
  const usable = "a[href], area[href], button, input:not([type=hidden]), select, textarea, summary, [contenteditable], [tabindex]:not([tabindex='-1'])";
  const groups = new Set();
  const things = {};
  let number = 0;
  for (const node of document.querySelectorAll(usable)) {
    node.dataset.thing = String(number);
    if (!node.checkVisibility({ visibilityProperty: true }) || node.disabled || node.closest("[inert]")) { number += 1; continue; }
    // The keys with arrows reach the other buttons of a group.
    const group = node.type === "radio" ? `${node.form ? node.form.action : ""} ${node.name}` : "";
    if (!group || !groups.has(group)) things[number] = `${node.localName} ${(node.textContent || node.name || node.id || "").trim().slice(0, 50)}`;
    if (group) groups.add(group);
    number += 1;
  }
  return things;
}
