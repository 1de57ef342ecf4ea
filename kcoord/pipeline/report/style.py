"""The CSS of the page: for a screen, light or dark, for a phone, and for paper. No script, no font, no image from
elsewhere.

Colors are those of Okabe and Ito, which people with any color vision can distinguish, made darker for a light
background so that white figures on them are readable. Nothing is shown by color alone.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """The colors of the report's page (CSS colors), for a light or a dark screen."""

    ground: str
    text: str
    quiet: str
    """The color of explaining text."""
    rule: str
    """The color of lines between rows."""
    link: str
    on_color: str
    """The color of text on one of the `colors`."""
    colors: tuple[str, ...]


LIGHT: Final = Scheme(
    ground="#ffffff",
    text="#1b1f23",
    quiet="#57606a",
    rule="#d0d7de",
    link="#0550ae",
    on_color="#ffffff",
    colors=("#0072b2", "#b34700", "#00765a", "#a2437f", "#876000", "#1f6f8b", "#5b4bb5", "#5f6770"),
)
DARK: Final = Scheme(
    ground="#14181c",
    text="#e6e9ec",
    quiet="#a3acb5",
    rule="#3a424a",
    link="#79b8ff",
    on_color="#000000",
    colors=("#56b4e9", "#ee7733", "#1fb48a", "#dd8fbd", "#e6c229", "#7fd7e8", "#b3a6ff", "#a9b1ba"),
)
COLORS: Final = len(LIGHT.colors)


def _variables(scheme: Scheme) -> str:
    fixed = {
        "ground": scheme.ground,
        "text": scheme.text,
        "quiet": scheme.quiet,
        "rule": scheme.rule,
        "link": scheme.link,
        "on-color": scheme.on_color,
    }
    colors = {f"c{number}": color for number, color in enumerate(scheme.colors)}
    return "".join(f"--{name}:{value};" for name, value in {**fixed, **colors}.items())


_COLOR_CLASSES: Final = "\n".join(
    f".c{number}{{--color:var(--c{number})}}" for number in range(COLORS)
)  # a class sets the color; the element decides whether to fill with it, draw with it or put it behind a figure

STYLE: Final = f"""
:root{{color-scheme:light dark;{_variables(LIGHT)}}}
@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}
{_COLOR_CLASSES}
*{{box-sizing:border-box}}
html{{background:var(--ground);color:var(--text);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}}
body{{margin:0 auto;padding:1rem;max-width:70rem}}
h1{{font-size:1.6rem;line-height:1.25;margin:.5rem 0}}
h2{{font-size:1.15rem;margin:2rem 0 .5rem}}
h1,h2,p,td,th,dd,figcaption,.rows{{overflow-wrap:anywhere}}
a{{color:var(--link)}}
.quiet,figcaption,caption{{color:var(--quiet);font-size:.875rem}}
nav{{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;font-size:.875rem;border-bottom:1px solid var(--rule)}}
nav a{{overflow-wrap:anywhere;padding:.5rem 0}}
dl{{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.75rem 1.5rem;margin:1rem 0}}
dl div{{border-top:2px solid var(--rule);padding-top:.25rem}}
dt{{color:var(--quiet);font-size:.875rem}}
dd{{margin:0;font-size:1.15rem;font-variant-numeric:tabular-nums}}
.scroll{{overflow-x:auto;background:linear-gradient(90deg,var(--ground) 30%,transparent) 0 0/3rem 100% local no-repeat,
 linear-gradient(270deg,var(--ground) 30%,transparent) 100% 0/3rem 100% local no-repeat,
 linear-gradient(90deg,var(--quiet),transparent) 0 0/.75rem 100% scroll no-repeat,
 linear-gradient(270deg,var(--quiet),transparent) 100% 0/.75rem 100% scroll no-repeat}}
.conclusion{{font-size:1.1rem;max-width:50rem}}
table{{border-collapse:collapse;width:100%;font-size:.875rem}}
caption{{text-align:left;caption-side:bottom;padding:.5rem 0}}
caption span{{display:block;width:max-content;position:sticky;left:0;max-width:min(100vw - 3rem,67rem)}}
th,td{{text-align:left;vertical-align:top;padding:.35rem .75rem .35rem 0;border-bottom:1px solid var(--rule)}}
th{{font-weight:600;white-space:nowrap;vertical-align:bottom}}
td{{min-width:4rem}}
th.n+:not(.n),td.n+:not(.n){{padding-left:.75rem}}
th.n,td.n{{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}}
td.t{{white-space:nowrap;font-variant-numeric:tabular-nums}}
td.name{{min-width:10rem}}
.tag{{display:inline-block;min-width:1.75rem;padding:0 .3rem;border-radius:.2rem;text-align:center;
 background:var(--color);color:var(--on-color);font-size:.8rem;line-height:1.4;font-variant-numeric:tabular-nums}}
figure{{margin:0 0 1rem}}
.rows{{display:grid;grid-template-columns:11rem minmax(0,1fr);gap:2px .5rem;align-items:center;
 font-size:.8rem}}
.rows>.label{{text-align:right;line-height:1.2;min-width:0}}
.rows>.head{{grid-column:1/-1;margin-top:.4rem;font-weight:600}}
svg{{display:block;width:100%;overflow:visible}}
svg text{{fill:var(--text);font-size:11px;font-variant-numeric:tabular-nums}}
svg .axis{{fill:var(--quiet)}}
svg .grid{{stroke:var(--rule);stroke-width:1}}
svg rect,svg .area{{fill:var(--color)}}
svg rect.mark{{stroke:var(--color);stroke-width:1}}
svg rect.span{{stroke:var(--ground);stroke-width:1}}
svg .brief{{stroke:var(--quiet);stroke-width:12;stroke-dasharray:1 3}}
svg .on{{fill:var(--on-color);pointer-events:none}}
svg .line{{fill:none;stroke:var(--color);stroke-width:1.5;stroke-linejoin:round;stroke-linecap:round;
 vector-effect:non-scaling-stroke}}
svg .d0{{stroke-width:2.25}}
svg .d1{{stroke-dasharray:7 3}}
svg .d2{{stroke-dasharray:2 4}}
svg .d3{{stroke-dasharray:9 3 2 3}}
svg .d4{{stroke-dasharray:4 3 1 3 1 3}}
.legend{{display:flex;flex-wrap:wrap;gap:.1rem 1.25rem;list-style:none;margin:.25rem 0;padding:0;font-size:.8rem}}
.legend li{{display:flex;align-items:center;gap:.4rem;overflow-wrap:anywhere}}
.legend svg{{width:2.2rem;flex:none}}
footer{{margin-top:3rem;border-top:1px solid var(--rule);padding-top:.5rem}}
@media (max-width:40rem){{
 .rows{{grid-template-columns:5.5rem minmax(0,1fr);gap:2px .35rem}}
 svg .odd{{display:none}}
}}
@supports selector(:has(*)){{@media screen{{
 .page:not(:target):not(:has(:target)){{display:none}}
 body:not(:has(.page:target)):not(:has(.page :target)) #overview{{display:block}}
}}}}
@media print{{
 *{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
 html{{font-size:11px}} body{{max-width:none;padding:0}}
 nav{{display:none}} .page~.page{{break-before:page}} figure,tr{{break-inside:avoid}} h2{{break-after:avoid}}
 .scroll{{overflow:visible}}
}}
"""
