"""The products of the demo shop, generated deterministically."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["CURRENCY", "Product", "products"]

CURRENCY = "EUR"


@dataclass(frozen=True, kw_only=True)
class Product:
    """A row of the catalogue. The price is in hundredths of the currency."""

    sku: str
    name: str
    category: str
    price_cents: int
    currency: str
    stock: int


@dataclass(frozen=True)
class _Family:
    """Products that differ in material and in size or kind. Each step up costs more."""

    category: str
    prefix: str
    names: tuple[str, ...]
    """Templates with a place for the material and one for the size."""
    materials: tuple[str, ...]
    sizes: tuple[str, ...]
    cents: int
    material_cents: int
    size_cents: int


_WOODS = ("Oak", "Walnut", "Birch", "White")
_METALS = ("Black", "Brass", "Steel")
_COLOURS = ("Black", "Blue", "Green", "Red")
_FABRICS = ("Grey", "Charcoal", "Olive")

_FAMILIES = (
    _Family(
        "Desks", "DSK", ("{} writing desk {}", "{} standing desk {}", "{} corner desk {}"),
        _WOODS, ("120 cm", "160 cm"), 18900, 3000, 6000,
    ),
    _Family(
        "Tables", "TBL", ("{} meeting table {}", "{} folding table {}"),
        _WOODS[:3], ("140 cm", "180 cm", "240 cm"), 15900, 2500, 8000,
    ),
    _Family(
        "Chairs", "CHR", ("{} office chair {}", "{} conference chair {}"),
        _FABRICS, ("with armrests", "without armrests"), 9900, 1000, 2500,
    ),
    _Family(
        "Chairs", "STL", ("{} bar stool {}", "{} step stool {}"),
        _WOODS[:3], ("45 cm", "65 cm"), 4990, 700, 1500,
    ),
    _Family(
        "Storage", "SHF", ("{} bookshelf with {}", "{} wall shelf with {}"),
        _WOODS, ("2 tiers", "4 tiers", "5 tiers"), 3990, 900, 2200,
    ),
    _Family(
        "Storage", "CAB", ("{} filing cabinet with {}", "{} sideboard with {}"),
        _METALS[:1] + _WOODS[:2], ("2 drawers", "3 drawers"), 8900, 2000, 3500,
    ),
    _Family(
        "Storage", "BOX", ("{} storage box {}", "{} document tray {}"),
        _FABRICS, ("A4", "A3"), 890, 100, 450,
    ),
    _Family(
        "Lighting", "LMP", ("{} desk lamp {}", "{} floor lamp {}", "{} pendant lamp {}"),
        _METALS, ("dimmable", "with LED bulb"), 3490, 600, 1500,
    ),
    _Family(
        "Lighting", "BLB", ("{} LED bulb {}",),
        ("Warm white", "Cool white", "Daylight"), ("E14", "E27", "GU10"), 490, 50, 120,
    ),
    _Family(
        "Stationery", "NBK", ("{} notebook {} lined", "{} notebook {} dotted"),
        _COLOURS, ("A5", "A4"), 690, 30, 300,
    ),
    _Family(
        "Stationery", "PEN", ("{} ballpoint pen {}", "{} gel pen {}", "{} fineliner {}"),
        _COLOURS, ("single", "pack of 10"), 190, 10, 1200,
    ),
    _Family(
        "Stationery", "PCL", ("{} pencil {}",),
        ("Graphite", "Mechanical", "Coloured"), ("HB", "2B", "4B"), 150, 90, 20,
    ),
    _Family(
        "Paper", "PAP", ("{} copy paper {}", "{} envelopes {}"),
        ("White", "Recycled", "Cream"), ("A4", "A5"), 590, 60, 110,
    ),
    _Family(
        "Office equipment", "BRD", ("{} whiteboard {}", "{} pinboard {}"),
        ("Magnetic", "Cork", "Glass"), ("60 x 90 cm", "120 x 180 cm"), 3990, 900, 5500,
    ),
    _Family(
        "Office equipment", "MCH", ("{} stapler {}", "{} hole punch {}"),
        ("Compact", "Heavy duty"), ("for 20 sheets", "for 60 sheets"), 990, 700, 1300,
    ),
    _Family(
        "Decoration", "RUG", ("{} wool rug {}",),
        _FABRICS, ("140 x 200 cm", "170 x 240 cm", "200 x 300 cm"), 12900, 1000, 7000,
    ),
    _Family(
        "Decoration", "PLT", ("{} plant pot {}", "{} vase {}"),
        ("Terracotta", "Ceramic", "Concrete"), ("small", "large"), 1290, 300, 1100,
    ),
)  # fmt: skip

_SOLD_OUT = 13  # every 13th product is out of stock


def products() -> Iterator[Product]:
    """Generate the products."""
    index = 0
    for family in _FAMILIES:
        number = 1000
        for place, name in enumerate(family.names):
            for dearer, material in enumerate(family.materials):
                for larger, size in enumerate(family.sizes):
                    index, number = index + 1, number + 1
                    cents = family.cents + dearer * family.material_cents + larger * family.size_cents
                    yield Product(
                        sku=f"{family.prefix}-{number}",
                        name=name.format(material, size),
                        category=family.category,
                        price_cents=cents + place * (cents // 500 * 100),
                        currency=CURRENCY,
                        stock=0 if index % _SOLD_OUT == 0 else index * 37 % 83 + 1,
                    )
