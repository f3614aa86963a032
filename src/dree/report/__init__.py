"""Figures, tables and one self-contained HTML page for a run or a suite of runs."""

from dree.report.curves import learning_curves
from dree.report.gallery import examples, gallery
from dree.report.page import (
    Heading,
    Picture,
    Row,
    Section,
    Table,
    Text,
    gaps_section,
    metrics_section,
    write_page,
)
from dree.report.routes import Solution, draw_routes, routes_grid
from dree.report.style import LAW_COLOURS, as_svg_or_png_data_uri, law_title, save, save_both
from dree.report.tables import Value, metrics_table

__all__ = [
    "LAW_COLOURS",
    "Heading",
    "Picture",
    "Row",
    "Section",
    "Solution",
    "Table",
    "Text",
    "Value",
    "as_svg_or_png_data_uri",
    "draw_routes",
    "examples",
    "gallery",
    "gaps_section",
    "law_title",
    "learning_curves",
    "metrics_section",
    "metrics_table",
    "routes_grid",
    "save",
    "save_both",
    "write_page",
]
