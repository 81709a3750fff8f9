"""A bill of materials in CycloneDX's format: every package that an installation with all extras brings."""

import os
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseAcknowledgement
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from releasing.dependencies import PROJECT, Package
from releasing.licences import expression

VERSION = SchemaVersion.V1_6
NAMESPACE = uuid.UUID("5b1f0f2e-6a52-4d7c-9d53-6a1f7d2f4c11")  # of the serial numbers


def bill(packages: dict[str, Package]) -> str:
    """The JSON text, with the time of SOURCE_DATE_EPOCH. Raises ValueError if it breaks CycloneDX's schema.

    The order and the serial number depend on the packages alone: the same packages give the same bytes.
    """
    components = {name: _component(package) for name, package in packages.items()}
    root = components.pop(PROJECT)
    bom = Bom(components=components.values())
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    content = " ".join(f"{one.name}=={one.version}:{one.sha256}" for one in packages.values())
    bom.serial_number = uuid.uuid5(NAMESPACE, content)
    for name, package in packages.items():
        required = [components[one] for one in package.requires() if one in components]
        bom.register_dependency(root if name == PROJECT else components[name], required)
    for name, extras in _extras(packages).items():
        if name in components:
            components[name].properties.add(Property(name=f"{PROJECT}:extras", value=extras))
    text = make_outputter(bom, OutputFormat.JSON, VERSION).output_as_string(indent=2)
    if (errors := JsonStrictValidator(VERSION).validate_str(text)) is not None:
        raise ValueError(f"the bill of materials breaks the schema of CycloneDX: {errors}")
    return text + "\n"


def _component(package: Package) -> Component:
    url = PackageURL("pypi", name=package.name, version=package.version)
    licence = expression(package)
    licences = LicenseFactory()
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.APPLICATION if package.name == PROJECT else ComponentType.LIBRARY,
        purl=url,
        bom_ref=str(url),
        description=package.metadata.get("summary"),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=package.sha256)] if package.sha256 else (),
        licenses=[licences.make_from_string(licence, license_acknowledgement=LicenseAcknowledgement.DECLARED)]
        if licence
        else (),
    )


def _extras(packages: dict[str, Package]) -> dict[str, str]:
    """The extras that bring each package, comma-separated; empty for what every installation has."""
    root = packages[PROJECT]
    names = ("", *sorted(root.extras))
    reached = {extra: set(_closure(packages, root.requires(extra))) for extra in names}
    return {
        name: "" if name in reached[""] else ",".join(extra for extra in names if name in reached[extra])
        for name in packages
    }


def _closure(packages: dict[str, Package], first: Iterable[str]) -> Iterator[str]:
    """Those packages, and all that they require."""
    waiting, seen = list(first), set[str]()
    while waiting:
        name = waiting.pop()
        if name in packages and name not in seen:
            seen.add(name)
            yield name
            waiting += packages[name].requires()
