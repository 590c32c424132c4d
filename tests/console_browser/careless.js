// Puts each text into a frame whose page prints it everywhere as it is, and returns for each whether a script of it ran, at once or
// after a click at its link.
async ([page, texts]) => {
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  const hits = (frame) => { try { return frame.contentWindow.hits > 0; } catch { return false; } };
  const ran = [];
  for (const text of texts) {
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-scripts allow-same-origin";
    frame.srcdoc = page.replaceAll("%s", () => text);
    document.body.append(frame);
    await pause(60);
    if (!hits(frame)) {
      try { frame.contentDocument.getElementById("link").click(); } catch { /* it has left for another page */ }
      await pause(20);
    }
    ran.push(hits(frame));
    frame.remove();
  }
  return ran;
}
