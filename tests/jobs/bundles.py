"""A realistic bundle: action lists, gear sets, and profiles that include them."""

from pathlib import Path

from jobs.management.commands.seedlocal import MINISIM, MINISIM_READS
from jobs.models import Build
from jobs.operations import build_registration
from tests.factories import BuildFactory

APL = "actions=frostbolt\nactions+=/ice_lance\n"
GEAR = "head=hood,id=1,ilevel=640\ntrinket1=stone,id=2,ilevel=640\n"
MAGE = 'mage="Bundled"\nlevel=80\nspec=frost\ninput=apls/mage.simc\ntier.simc\n'
SETS = "".join(f'profileset."set {n}"+=trinket1=stone,id=2,ilevel={600 + 15 * n}\n' for n in range(1, 6))
FILES = {
    "apls/mage.simc": APL,
    "gear/tier.simc": GEAR,
    "sets/trinkets.simc": SETS,
    "profiles/mage.simc": MAGE,
    "raid.simc": 'profiles/mage.simc\nwarrior="Second"\nlevel=80\n',
}


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write a bundle's files into a folder."""
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def bundled_build(folder: Path, files: dict[str, str] | None = None, **fields: object) -> Build:
    """Make a build of the built-in simulator whose bundled files can all be included."""
    files = FILES if files is None else files
    write(folder, files)
    defaults = {
        "executable": str(MINISIM),
        "readable_paths": build_registration.readable_paths(MINISIM, MINISIM_READS),
        "profiles_path": str(folder),
        "includable": sorted(files),
    }
    return BuildFactory.create(**defaults | fields)
