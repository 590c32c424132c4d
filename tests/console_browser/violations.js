// Returns what axe-core objects to, a line for each rule, with the first places.
async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  const place = (node) => `${node.html.slice(0, 160)} ${node.any.map((check) => check.message).join("; ").slice(0, 200)}`;
  return violations.map(({ id, help, nodes }) => `${id}: ${help} (${nodes.length}): ${nodes.slice(0, 3).map(place).join(" | ")}`);
}
