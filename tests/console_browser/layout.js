// Returns what of a page stands where nobody sees it: beyond the sides of the window, without a way to scroll there.
() => {
  const width = window.innerWidth;
  const breaks = [];
  const named = (node) => `${node.localName}.${node.className} ${(node.textContent || "").trim().slice(0, 60)}`;
  const root = document.scrollingElement;
  if (root.scrollWidth > width) breaks.push(`the page is ${root.scrollWidth}px wide`);
  const scrolls = (node) => {
    for (let each = node; each && each !== document.body; each = each.parentElement) {
      const style = getComputedStyle(each);
      if (["auto", "scroll"].includes(style.overflowX)) return true;
      // Texts for screen readers only, and links that appear when they have the focus.
      if (each.matches(".unseen, .skip") || style.clipPath !== "none") return true;
    }
    return false;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (breaks.length < 5 && walker.nextNode()) {
    const text = walker.currentNode;
    if (!text.data.trim()) continue;
    range.selectNodeContents(text);
    const isOut = (box) => box.width > 0 && (box.right > width + 1 || box.left < -1);
    if ([...range.getClientRects()].some(isOut) && !scrolls(text.parentElement)) breaks.push(`outside: ${named(text.parentElement)}`);
  }
  for (const node of document.querySelectorAll("a, button, input, select, textarea, img, svg, table")) {
    if (breaks.length >= 5) break;
    const box = node.getBoundingClientRect();
    if (box.width > 0 && (box.right > width + 1 || box.left < -1) && !scrolls(node)) breaks.push(`outside: ${named(node)}`);
  }
  return breaks;
}
