"""CSS of the HTML report, for light and dark mode. `--s0` to `--s5` are the colours of the configurations in the plots."""

from __future__ import annotations

CSS = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #16202c; --soft: #5b6876; --rule: #dfe4ea; --grid: #e9edf1;
  --s0: #1f6feb; --s1: #d9730d; --s2: #a13fbf; --s3: #13855c; --s4: #0e8a9c; --s5: #c2304b;
  --good: #13855c; --bad: #c2304b; --tint: #eef4ff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e1319; --card: #161d26; --ink: #e6ebf1; --soft: #9aa7b5; --rule: #2a3542; --grid: #222c37;
    --s0: #6aa8ff; --s1: #f0a04b; --s2: #d08be6; --s3: #4cc795; --s4: #4fc3d4; --s5: #f07a90;
    --good: #4cc795; --bad: #f07a90; --tint: #172335;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink); line-height: 1.5;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif;
}
main { max-width: 1180px; margin: 0 auto; padding: 36px 24px 64px; }
header p { color: var(--soft); margin: 2px 0 0; }
h1 { font-size: 26px; line-height: 1.25; margin: 0; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 0 0 2px; }
section p.about { color: var(--soft); margin: 0 0 14px; font-size: 13.5px; max-width: 75ch; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 14px; margin: 24px 0; }
.tile, section { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; }
.tile { padding: 14px 16px; }
.tile .name { color: var(--soft); font-size: 13px; }
.tile .value { font-size: 25px; font-weight: 650; letter-spacing: -.02em; font-variant-numeric: tabular-nums; }
.tile .between { color: var(--soft); font-size: 12.5px; font-variant-numeric: tabular-nums; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 18px; }
section { padding: 18px 20px; margin: 0 0 18px; min-width: 0; }
.plots section { margin: 0; }
.plots { margin-bottom: 18px; }
.plots > section:last-child:nth-child(odd) { grid-column: 1 / -1; }
.plots > section:last-child:nth-child(odd) svg { max-width: 700px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; color: var(--soft); font-weight: 550; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th, td { padding: 7px 14px 7px 0; vertical-align: top; }
td { border-bottom: 1px solid var(--grid); }
tr:last-child td { border-bottom: 0; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.query { min-width: 220px; max-width: 380px; overflow-wrap: anywhere; }
td .between { color: var(--soft); font-size: 12px; }
code { font: 12.5px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.tool { display: inline-block; margin: 0 5px 4px 0; padding: 1px 7px; border-radius: 6px; background: var(--grid); }
.tool.right { background: color-mix(in srgb, var(--good) 20%, transparent); }
.place { color: var(--soft); font-size: 12px; }
.earlier { color: var(--soft); font-size: 12.5px; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 18px; font-size: 13.5px; }
.legend i, td i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; }
i.s0 { background: var(--s0); } i.s1 { background: var(--s1); } i.s2 { background: var(--s2); }
i.s3 { background: var(--s3); } i.s4 { background: var(--s4); } i.s5 { background: var(--s5); }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--soft); } svg .label { fill: var(--ink); }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .grid { stroke: var(--grid); } svg .axis { stroke: var(--rule); }
svg .zero { stroke: var(--soft); stroke-dasharray: 3 3; }
svg .chance { stroke: var(--soft); stroke-dasharray: 4 4; fill: none; opacity: .6; }
svg .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
svg .whisker { stroke-width: 2.4; stroke-linecap: round; opacity: .55; }
svg .band { opacity: .15; } svg .bar { opacity: .55; }
svg .mark { stroke: var(--card); stroke-width: 1.5; }
svg .line.s0, svg .whisker.s0 { stroke: var(--s0); } svg .s0:not(.line):not(.whisker) { fill: var(--s0); }
svg .line.s1, svg .whisker.s1 { stroke: var(--s1); } svg .s1:not(.line):not(.whisker) { fill: var(--s1); }
svg .line.s2, svg .whisker.s2 { stroke: var(--s2); } svg .s2:not(.line):not(.whisker) { fill: var(--s2); }
svg .line.s3, svg .whisker.s3 { stroke: var(--s3); } svg .s3:not(.line):not(.whisker) { fill: var(--s3); }
svg .line.s4, svg .whisker.s4 { stroke: var(--s4); } svg .s4:not(.line):not(.whisker) { fill: var(--s4); }
svg .line.s5, svg .whisker.s5 { stroke: var(--s5); } svg .s5:not(.line):not(.whisker) { fill: var(--s5); }
footer { color: var(--soft); font-size: 12.5px; margin-top: 26px; max-width: 90ch; }
@media print { body { background: #fff; } section, .tile { break-inside: avoid; } }
"""
