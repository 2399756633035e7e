// How the page of a report looks: plain CSS, light and dark by the reader's own setting, on a phone and on paper.
export const pageStyle = `
:root {
  color-scheme: light;
  --ground: #fbfbfa; --card: #ffffff; --ink: #1c2024; --soft: #5b6470; --line: #e1e4e8; --faint: #eef0f2;
  --good: #18794e; --good-ground: #e3f5ea; --bad: #b42318; --bad-ground: #fdeae7; --link: #0b62c4;
  --s0: #0b62c4; --s1: #d9480f; --s2: #18794e; --s3: #9c36b5; --s4: #a87400; --s5: #0c8599; --s6: #c2255c; --s7: #5c677d;
}
:root[data-theme='dark'] {
  color-scheme: dark;
  --ground: #111417; --card: #181c20; --ink: #e7eaee; --soft: #9aa5b1; --line: #2d333a; --faint: #20252a;
  --good: #5cd195; --good-ground: #12301f; --bad: #ff8f80; --bad-ground: #3b1713; --link: #7ab8ff;
  --s0: #6cb0ff; --s1: #ff9052; --s2: #5cd195; --s3: #d493ec; --s4: #e5b93c; --s5: #4fc6d8; --s6: #ff85ac; --s7: #a9b4c4;
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-padding-top: 3.5rem; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; overflow-wrap: break-word; }
main, .bar > div { max-width: 70rem; margin: 0 auto; padding: 0 1.25rem; }
.bar { position: sticky; top: 0; z-index: 3; background: var(--ground); border-bottom: 1px solid var(--line); }
.bar > div { display: flex; align-items: center; gap: 1.1rem; min-height: 3rem; overflow-x: auto; white-space: nowrap; font-size: .9rem; }
.bar b { letter-spacing: .01em; }
.bar a { color: var(--soft); text-decoration: none; }
.bar a:hover { color: var(--ink); text-decoration: underline; }
.bar button { margin-left: auto; }
h1, h2, h3 { line-height: 1.25; font-weight: 650; text-wrap: balance; }
h1, .report > header h2 { font-size: clamp(1.5rem, 4.5vw, 2.1rem); margin: 0 0 .5rem; letter-spacing: -.015em; }
.report > header { padding: 2.2rem 0 .4rem; }
.report + .report { border-top: 1px solid var(--line); margin-top: 3rem; }
section > h3 { font-size: 1.12rem; margin: 2.4rem 0 .25rem; }
section > h3 + div { margin-top: .6rem; }
.note, .facts { color: var(--soft); }
.note { margin: 0 0 .7rem; font-size: .94rem; max-width: 48rem; }
.facts { font-size: .9rem; margin: .3rem 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: .1rem 1.3rem; list-style: none; }
code { font: .88em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; background: var(--faint); border-radius: 4px; padding: .1em .35em; overflow-wrap: anywhere; }
.score { display: inline-block; font-size: .9rem; font-weight: 600; padding: .15rem .7rem; border-radius: 99px; background: var(--faint); margin: 0 0 .8rem; }
.score.all { color: var(--good); background: var(--good-ground); }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 10px; background: var(--card); }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .5rem .85rem; text-align: left; vertical-align: baseline; border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--soft); font-weight: 550; font-size: .84rem; vertical-align: bottom; }
td.n, th.n { text-align: right; white-space: nowrap; }
tbody th { font-weight: 500; }
td small { color: var(--soft); font-size: .84em; white-space: nowrap; }
td.n small { display: block; }
.targets td.n b { font-size: 1.12em; }
.targets .what { min-width: 15rem; }
.targets .what code { background: none; padding: 0; color: var(--soft); font-size: .8em; }
.targets .what span { display: block; }
.mark { font-weight: 600; font-size: .9em; padding: .1rem .5rem; border-radius: 5px; white-space: nowrap; display: inline-block; }
.met { color: var(--good); background: var(--good-ground); }
.missed { color: var(--bad); background: var(--bad-ground); }
.verdict small { display: block; margin-top: .15rem; white-space: normal; }
.strip { position: relative; height: 1.1rem; width: 9rem; max-width: 100%; }
.strip i { position: absolute; top: .5rem; height: 1px; left: 0; right: 0; background: var(--line); }
.strip .spread { top: .3rem; height: .42rem; right: auto; min-width: 2px; border-radius: 3px; background: var(--s0); opacity: .35; }
.strip .middle { top: .1rem; height: .82rem; width: 3px; right: auto; margin-left: -1px; border-radius: 2px; background: var(--s0); }
.strip .limit { top: 0; height: 1.1rem; width: 0; right: auto; background: none; border-left: 2px dotted var(--soft); }
.plot { border: 1px solid var(--line); border-radius: 10px; background: var(--card); padding: .9rem .9rem .6rem; }
.legend { display: flex; flex-wrap: wrap; gap: .35rem .5rem; margin: 0 0 .6rem; padding: 0; }
button { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 7px; padding: .25rem .7rem; cursor: pointer; }
button:hover { border-color: var(--soft); }
button:focus-visible, a:focus-visible, summary:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.legend button { font-size: .86rem; padding: .16rem .6rem .16rem .45rem; text-align: left; }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: 3px; margin-right: .45em; vertical-align: -.06em; background: var(--c); }
.legend button[aria-pressed='false'] { color: var(--soft); text-decoration: line-through; }
.legend button[aria-pressed='false'] i { opacity: .25; }
[hidden] { display: none !important; }
.chart { position: relative; min-height: 320px; touch-action: pan-y; }
.tip { position: absolute; z-index: 2; pointer-events: none; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .45rem .65rem; font-size: .84rem; line-height: 1.45; box-shadow: 0 4px 18px rgb(0 0 0 / .16); max-width: min(22rem, 90%); font-variant-numeric: tabular-nums; }
.tip b, .tip span { display: block; }
.tip i { display: inline-block; width: .65em; height: .65em; border-radius: 2px; margin-right: .4em; background: var(--c); }
.tip { width: max-content; }
.tip small { color: var(--soft); }
.tip em { font-style: normal; font-weight: 600; }
.u-hz .u-cursor-x, .u-vt .u-cursor-y { border-color: var(--soft); opacity: .6; }
.limits { background: var(--faint); border-radius: 10px; padding: .3rem 1.3rem .7rem; margin-top: 2.4rem; }
.limits h3 { font-size: 1.12rem; margin: .9rem 0 .3rem; }
.limits ul { margin: 0; padding-left: 1.1rem; max-width: 52rem; }
.limits li { margin: .4rem 0; }
td.none { color: var(--soft); }
details { margin-top: 1.2rem; font-size: .92rem; }
summary { cursor: pointer; color: var(--soft); }
details dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; margin: .7rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
footer { margin: 3rem 0 2.5rem; padding-top: 1rem; border-top: 1px solid var(--line); color: var(--soft); font-size: .86rem; }
noscript p { color: var(--soft); }
@media (max-width: 42rem) {
  body { font-size: 15px; }
  main, .bar > div { padding: 0 .9rem; }
  th, td { padding: .45rem .65rem; }
  .targets thead { display: none; }
  .targets, .targets tbody, .targets tr, .targets td { display: block; }
  .targets tr { padding: .7rem .9rem .8rem; border-top: 1px solid var(--line); }
  .targets tr:first-child { border-top: 0; }
  .targets td, .targets td.n { border: 0; padding: .1rem 0; text-align: left; }
  .targets td.n small, .verdict small { display: inline; margin-left: .4rem; }
  .targets td.limit::before { content: 'target '; color: var(--soft); }
  .targets td:empty { display: none; }
  .strip { width: 100%; margin: .25rem 0; }
  .plot { padding: .7rem .5rem .4rem; margin: 0 -.4rem; }
  details dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin: 0 0 .45rem; }
}
@media print {
  body { font-size: 10.5pt; background: #fff; }
  .bar, .tip, button.save { display: none !important; }
  main { max-width: none; padding: 0; }
  .report + .report { break-before: page; border: 0; }
  .plot, tr, .limits li { break-inside: avoid; }
  section > h3 { break-after: avoid; }
  .wide { overflow: visible; }
  table { font-size: .85em; }
  th, td { padding: .3rem .4rem; }
}
`
