"""The report's stylesheet: one page on a screen or a sheet, in light, dark and print."""

STYLE = """
:root{--ink:#1c2024;--soft:#5b646e;--line:#d9dee3;--page:#f6f7f9;--card:#fff;--one:#0067a5;--two:#c4500c;--heat:#c4500c;
--good:#0b6b3a}
@media (prefers-color-scheme:dark){:root{--ink:#e8eaed;--soft:#a2abb5;--line:#343b43;--page:#14171a;--card:#1d2125;
--one:#62b6f0;--two:#f2a65a;--heat:#f2a65a;--good:#63d297}}
@media print{:root{--ink:#000;--soft:#444;--line:#ccc;--page:#fff;--card:#fff;--one:#0067a5;--two:#c4500c;
--heat:#c4500c;--good:#0b6b3a}@page{size:A4;margin:9mm}body{font-size:9.5px!important}main{padding:0!important;max-width:none!important}
.panel,figure{break-inside:avoid;padding:7px 9px!important}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:13px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
-webkit-print-color-adjust:exact;print-color-adjust:exact}
main{max-width:1240px;margin:0 auto;padding:18px 18px 12px}
h1{font-size:1.65em;margin:0 0 .1em;letter-spacing:-.01em}
h2{font-size:1em;margin:0 0 .5em}
header p{margin:.25em 0;max-width:105ch}
.verdict{font-size:1.15em;font-weight:600;color:var(--good)}
.verdict.against{color:var(--two)}
.top{display:grid;grid-template-columns:minmax(0,1.9fr) minmax(0,1fr);gap:12px;margin:12px 0}
.cards{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:12px}
@media screen and (max-width:900px){.top,.cards{grid-template-columns:minmax(0,1fr)}}
.panel,figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:4px 10px 4px 0;border-top:1px solid var(--line)}
thead th{border-top:0;color:var(--soft);font-weight:500;padding-top:0}
tbody th{font-weight:600;white-space:nowrap}
small{display:block;color:var(--soft);font-weight:400;font-size:.86em}
.value{font-weight:700;font-size:1.08em;font-variant-numeric:tabular-nums}
.usual{color:var(--soft);font-variant-numeric:tabular-nums}
.plain td{font-variant-numeric:tabular-nums}
.unused{color:var(--soft)}
.sum th,.sum td{border-top:2px solid var(--soft);font-weight:600}
.use{margin:.6em 0 0}
code{background:var(--page);border:1px solid var(--line);border-radius:4px;padding:1px 5px;font-size:.92em}
.panel p{margin:.6em 0 .3em;color:var(--soft)}
figcaption{color:var(--soft);font-size:.92em;margin-top:.35em}
footer{color:var(--soft);font-size:.86em;margin-top:10px}
svg{width:100%;height:auto;display:block;font:11px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
svg .tick{stroke:var(--line);stroke-width:1}
svg text{fill:var(--ink)}
svg .label{fill:var(--soft);text-anchor:middle}
svg .number{fill:var(--soft);text-anchor:middle;font-size:10px}
svg .end{text-anchor:end}svg .start{text-anchor:start}svg .middle{text-anchor:middle}
svg .note{font-size:10.5px}
svg .line{fill:none;stroke:var(--one);stroke-width:2;stroke-linejoin:round}
svg .line.two{stroke:var(--two);stroke-dasharray:6 3}
svg .line.three{stroke:var(--soft);stroke-dasharray:2 3}
svg .mark{stroke:var(--soft);stroke-width:1.2;stroke-dasharray:4 3}
svg .mark.chosen{stroke:var(--good);stroke-dasharray:none;stroke-width:1.6}
svg .note.chosen{fill:var(--good);font-weight:600}
svg .note.target{fill:var(--soft)}
svg .point{fill:var(--one);stroke:var(--card);stroke-width:1.2}
svg .point.two{fill:var(--two)}svg .point.three{fill:var(--soft)}
svg .point.chosen{fill:var(--good)}
svg .bar{stroke:var(--one);stroke-width:2}
svg .bar.two{stroke:var(--two)}svg .bar.chosen{stroke:var(--good)}
svg .cell{fill:color-mix(in srgb,var(--heat) var(--s),var(--card));stroke:var(--line)}
svg .inside{text-anchor:middle;font-size:10.5px}
"""
