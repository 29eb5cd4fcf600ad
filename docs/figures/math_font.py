# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws docs/assets/math-constants.ttf: a font without letters that tells a browser how to set formulas.

Browsers take the places of subscripts and fractions from the math font that they find. Where none is installed,
Chromium puts subscripts on the base line. This font has the numbers of TeX for that, and a space; all letters come from
the reader's own fonts. docs/assets/pages.css names it behind the common math fonts.

.venv/bin/python docs/figures/math_font.py writes it anew.
"""

from __future__ import annotations

from pathlib import Path

from fontTools.fontBuilder import FontBuilder
from fontTools.otlLib.builder import buildMathTable
from fontTools.ttLib.tables._g_l_y_f import Glyph

OUT = Path(__file__).resolve().parents[1] / "assets" / "math-constants.ttf"
UNITS = 1000
# In thousandths of the letter size: about those of TeX, with rules of at least one pixel at the size of the text.
CONSTANTS = {
    "ScriptPercentScaleDown": 70,
    "ScriptScriptPercentScaleDown": 50,
    "DelimitedSubFormulaMinHeight": 1300,
    "DisplayOperatorMinHeight": 1400,
    "AxisHeight": 250,
    "AccentBaseHeight": 450,
    "SubscriptShiftDown": 200,
    "SubscriptTopMax": 344,
    "SubscriptBaselineDropMin": 120,
    "SuperscriptShiftUp": 363,
    "SuperscriptShiftUpCramped": 289,
    "SuperscriptBottomMin": 108,
    "SuperscriptBaselineDropMax": 250,
    "SubSuperscriptGapMin": 160,
    "SuperscriptBottomMaxWithSubscript": 344,
    "SpaceAfterScript": 56,
    "UpperLimitGapMin": 150,
    "UpperLimitBaselineRiseMin": 111,
    "LowerLimitGapMin": 167,
    "LowerLimitBaselineDropMin": 600,
    "FractionNumeratorShiftUp": 480,
    "FractionNumeratorDisplayStyleShiftUp": 677,
    "FractionDenominatorShiftDown": 480,
    "FractionDenominatorDisplayStyleShiftDown": 686,
    "FractionNumeratorGapMin": 100,
    "FractionNumDisplayStyleGapMin": 150,
    "FractionRuleThickness": 70,
    "FractionDenominatorGapMin": 100,
    "FractionDenomDisplayStyleGapMin": 150,
    "MathLeading": 150,
    "FlattenedAccentBaseHeight": 660,
    "StackTopShiftUp": 444,
    "StackTopDisplayStyleShiftUp": 677,
    "StackBottomShiftDown": 345,
    "StackBottomDisplayStyleShiftDown": 686,
    "StackGapMin": 135,
    "StackDisplayStyleGapMin": 315,
    "StretchStackTopShiftUp": 300,
    "StretchStackBottomShiftDown": 600,
    "StretchStackGapAboveMin": 150,
    "StretchStackGapBelowMin": 150,
    "SkewedFractionHorizontalGap": 350,
    "SkewedFractionVerticalGap": 100,
    "OverbarVerticalGap": 135,
    "OverbarRuleThickness": 70,
    "OverbarExtraAscender": 45,
    "UnderbarVerticalGap": 135,
    "UnderbarRuleThickness": 70,
    "UnderbarExtraDescender": 45,
    "RadicalKernBeforeDegree": 280,
    "RadicalKernAfterDegree": -550,
    "RadicalDegreeBottomRaisePercent": 60,
    "RadicalVerticalGap": 50,
    "RadicalDisplayStyleVerticalGap": 148,
    "RadicalRuleThickness": 70,
    "RadicalExtraAscender": 45,
}


def main() -> None:
    font = FontBuilder(UNITS, isTTF=True)
    font.setupGlyphOrder([".notdef", "space"])
    font.setupCharacterMap({0x20: "space"})
    font.setupGlyf({".notdef": Glyph(), "space": Glyph()})
    font.setupHorizontalMetrics({".notdef": (250, 0), "space": (250, 0)})
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "gr-oac math constants", "styleName": "Regular"})
    font.setupOS2(sTypoAscender=800, sTypoDescender=-200, usWinAscent=800, usWinDescent=200, sxHeight=450)
    font.setupPost(underlineThickness=70, underlinePosition=-100)
    font.setupHead(unitsPerEm=UNITS, created=0, modified=0)
    font.font.recalcTimestamp = False
    buildMathTable(font.font, constants=CONSTANTS)
    font.save(OUT)


if __name__ == "__main__":
    main()
