"""Documents: their forms, the names and schemas of the tools, and documents that are wrong or hostile."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.sources.openapi.recording import body, document, opened, operation, tool_named
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.errors import CatalogError, ConfigError
from toolcaddie.core.schema import argument_errors, check_schema
from toolcaddie.sources.openapi import OpenApi, OpenApiSource
from toolcaddie.sources.openapi.document import Reading, read

pytestmark = pytest.mark.anyio


def reading(description: Any, **settings: Any) -> Reading:
    text = description if isinstance(description, str | bytes) else json.dumps(description)
    api = OpenApi(name="api", document="api.json", **settings)
    return read(text if isinstance(text, bytes) else text.encode(), api, Bounds())


def schema_of(schema: Any, *, version: str = "3.1.0", media_type: str = "application/json", **more: Any) -> Any:
    """Returns the schema of a tool's arguments whose body has this schema."""
    paths = {"/a": {"post": {**operation(), **body(schema, media_type)}}}
    return reading(document(paths, version, **more)).tools[0].input_schema


def accepts(schema: Any, value: Any) -> bool:
    return not argument_errors(schema, {"body": value})


# --- names, descriptions, annotations ----------------------------------------------------------------------------------------


def test_a_tool_is_named_after_the_operation_or_its_method_and_path() -> None:
    paths = {"/pets/{id}": {"get": {"operationId": "pets/show.one"}, "delete": {}}, "/ü": {"get": {}}}
    names = [tool.name for tool in reading(document(paths)).tools]
    assert names == ["pets_show_one", "DELETE_pets_id", "GET"]


def test_equal_and_long_names_get_the_digest_of_their_operation_whatever_the_order() -> None:
    paths: dict[str, Any] = {f"/p{n}": {"get": {"operationId": "same"}} for n in range(3)}
    paths["/long"] = {"get": {"operationId": "x" * 100}, "put": {"operationId": "x" * 100 + "y"}}
    paths["/bad"] = {"get": {"operationId": "a b"}, "put": {"operationId": "a.b"}}
    first = {route.operation.title: name for name, route in reading(document(paths)).routes.items()}
    other = {
        route.operation.title: name for name, route in reading(document(dict(reversed(paths.items())))).routes.items()
    }
    assert first == other
    assert len(set(first.values())) == 7
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in first.values())


def test_a_name_that_belongs_to_a_meta_tool_gets_the_name_of_the_source() -> None:
    [tool] = reading(document({"/a": {"get": {"operationId": "search_tools"}}})).tools
    assert tool.name == "api__search_tools"


def test_a_prefix_begins_every_name() -> None:
    [tool] = reading(document({"/a": {"get": operation()}}), prefix="pets").tools
    assert tool.name == "pets__go"


def test_summary_and_description_describe_the_tool_and_tags_are_categories() -> None:
    paths = {
        "/user-keys/{id}/reset": {
            "post": {"summary": "Reset", "description": "A key.", "tags": ["User Keys", "more"], "deprecated": True}
        }
    }
    result = reading(document(paths, tags=[{"name": "User Keys", "description": "Keys of users."}]))
    [tool], [category] = result.tools, result.categories
    assert (tool.description, tool.category) == ("Reset\n\nA key.\n\nDeprecated.", "api.user-keys")
    assert (category.name, category.description, category.keywords) == (
        "api.user-keys",
        "Keys of users.",
        ("user keys",),
    )
    assert (tool.hints, tool.tags) == (("user keys reset", "User Keys", "more"), ("User Keys", "more"))


def test_invisible_characters_of_a_description_are_spelled_out() -> None:
    parameter = {"name": "q", "in": "query", "description": "say \u202e", "schema": {"type": "string"}}
    [tool] = reading(document({"/a": {"get": operation(parameter, summary="safe\u200f\u001b[2J")}})).tools
    assert tool.description == "safe\\u200f\\x1b[2J"
    assert tool.input_schema["properties"]["q"]["description"] == "say \\u202e"


def test_the_method_says_what_a_call_may_do() -> None:
    paths = {"/a": {method: {} for method in ("get", "head", "put", "post", "patch", "delete")}}
    tools = {tool.name.partition("_")[0]: tool for tool in reading(document(paths)).tools}
    assert {name for name, tool in tools.items() if tool.annotations.read_only} == {"GET", "HEAD"}
    assert {name for name, tool in tools.items() if tool.annotations.destructive} == {"DELETE"}
    assert {name for name, tool in tools.items() if tool.annotations.idempotent} == {"GET", "HEAD", "PUT", "DELETE"}
    assert {name for name, tool in tools.items() if tool.may_destroy} == {"PUT", "POST", "PATCH", "DELETE"}


def test_a_header_for_idempotency_keys_is_known_as_such() -> None:
    header = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}
    assert reading(document({"/a": {"post": operation(header)}})).tools[0].idempotency_key == "Idempotency-Key"


# --- which operations --------------------------------------------------------------------------------------------------------

PATHS = {
    "/pets": {
        "get": {"operationId": "listPets", "tags": ["pets"]},
        "post": {"operationId": "addPet", "tags": ["pets"]},
    },
    "/admin/users/{id}": {"delete": {"operationId": "dropUser", "tags": ["admin"]}, "get": {"operationId": "getUser"}},
}


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"include": ("tag:pets",)}, ["listPets", "addPet"]),
        ({"include": ("/admin/*",)}, ["dropUser", "getUser"]),
        ({"include": ("GET *",)}, ["listPets", "getUser"]),
        ({"include": ("get /admin/users/{id}",)}, ["getUser"]),
        ({"include": ("*Pet", "getUser")}, ["addPet", "getUser"]),
        ({"exclude": ("DELETE *", "tag:p*")}, ["getUser"]),
        ({"include": ("tag:pets",), "exclude": ("POST *",)}, ["listPets"]),
    ],
    ids=["tag", "path", "method", "both", "names", "exclude", "together"],
)
def test_patterns_pick_operations_by_tag_path_method_and_name(settings: Any, names: list[str]) -> None:
    assert [tool.name for tool in reading(document(PATHS), **settings).tools] == names


@pytest.mark.parametrize("setting", ["include", "exclude", "read_only"])
def test_a_pattern_that_fits_nothing_is_an_error_with_a_suggestion(setting: str) -> None:
    with pytest.raises(
        ConfigError, match=r"the pattern 'tag:pet' fits no operation of the document; did you mean 'tag:pets'\?"
    ):
        reading(document(PATHS), **{setting: ("tag:pet",)})


def test_settings_can_say_that_an_operation_only_reads() -> None:
    tools = {tool.name: tool for tool in reading(document(PATHS), read_only=("POST /pets",)).tools}
    assert tools["addPet"].annotations.read_only is True


# --- schemas -----------------------------------------------------------------------------------------------------------------


def test_references_stay_references_and_recursion_is_fine() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/components/schemas/Node"}, "leaf": {"$ref": "#/components/schemas/Leaf"}},
    }
    unused = {"type": "string"}
    components = {"schemas": {"Node": node, "Leaf": {"type": "integer"}, "Unused": unused}}
    schema = schema_of({"$ref": "#/components/schemas/Node"}, components=components)
    assert schema["properties"]["body"] == {"$ref": "#/$defs/Node"}
    assert set(schema["$defs"]) == {"Node", "Leaf"}
    assert accepts(schema, {"next": {"next": {"leaf": 1}}})
    assert not accepts(schema, {"next": {"next": {"leaf": "x"}}})


def test_a_long_chain_of_references_needs_no_deep_stack() -> None:
    schemas = {
        f"S{n}": {"type": "object", "properties": {"next": {"$ref": f"#/components/schemas/S{n + 1}"}}}
        for n in range(3_000)
    }
    schemas["S3000"] = {"type": "integer"}
    schema = schema_of({"$ref": "#/components/schemas/S0"}, components={"schemas": schemas})
    assert accepts(schema, {"next": {"next": {}}})


def test_references_to_any_place_of_the_document_are_followed() -> None:
    own = {
        "type": "object",
        "$defs": {"Inner": {"type": "integer"}},
        "properties": {"a": {"$ref": "#/components/schemas/Own/$defs/Inner"}},
    }
    anchored = {"$anchor": "place", "type": "boolean"}
    schema = schema_of(
        {"type": "object", "properties": {"own": {"$ref": "#/components/schemas/Own"}, "b": {"$ref": "#place"}}},
        components={"schemas": {"Own": own, "Anchored": anchored}},
    )
    assert accepts(schema, {"own": {"a": 1}, "b": True})
    assert not accepts(schema, {"own": {"a": "x"}})
    assert not accepts(schema, {"b": 1})


def test_parameters_bodies_and_paths_may_be_references() -> None:
    components = {
        "parameters": {"Id": {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}},
        "requestBodies": {"B": {"required": True, **body({"type": "string"})["requestBody"]}},
        "pathItems": {
            "P": {
                "put": {
                    "parameters": [{"$ref": "#/components/parameters/Id"}],
                    "requestBody": {"$ref": "#/components/requestBodies/B"},
                }
            }
        },
    }
    [tool] = reading(document({"/a/{id}": {"$ref": "#/components/pathItems/P"}}, components=components)).tools
    assert tool.input_schema["required"] == ["id", "body"]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string", "nullable": True}, None, 1),
        ({"type": "string", "enum": ["a"], "nullable": True}, None, "b"),
        ({"$ref": "#/components/schemas/S", "nullable": True}, None, 1),
        ({"allOf": [{"$ref": "#/components/schemas/S"}], "nullable": True}, None, 1),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, 4, 3),
        ({"type": "integer", "maximum": 3, "exclusiveMaximum": False}, 3, 4),
        ({"type": "string", "example": 1, "xml": {"name": "x"}, "x-more": {}}, "a", 1),
    ],
    ids=["type", "enum", "reference", "all", "exclusive", "inclusive", "noise"],
)
def test_schemas_of_openapi_3_0_mean_the_same(schema: Any, good: Any, bad: Any) -> None:
    converted = schema_of(schema, version="3.0.3", components={"schemas": {"S": {"type": "string"}}})
    check_schema(converted, what="tool")
    assert accepts(converted, good)
    assert not accepts(converted, bad)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": ["string", "null"]}, None, 1),
        ({"const": 3}, 3, 4),
        ({"type": "array", "prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", 1]),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}], "discriminator": {"propertyName": "x"}}, 1, 1.5),
        ({"$ref": "#/components/schemas/S", "maxLength": 2}, "ab", "abc"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": "x"}),
    ],
    ids=["types", "const", "prefix", "one", "siblings", "more"],
)
def test_schemas_of_openapi_3_1_mean_the_same(schema: Any, good: Any, bad: Any) -> None:
    converted = schema_of(schema, components={"schemas": {"S": {"type": "string"}}})
    assert accepts(converted, good)
    assert not accepts(converted, bad)


def test_properties_of_answers_are_no_part_of_requests() -> None:
    base = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer", "readOnly": True}}}
    pet = {
        "allOf": [{"$ref": "#/components/schemas/Base"}],
        "type": "object",
        "required": ["id", "name"],
        "properties": {"name": {"type": "string"}, "secret": {"type": "string", "writeOnly": True}},
    }
    schema = schema_of({"$ref": "#/components/schemas/Pet"}, components={"schemas": {"Base": base, "Pet": pet}})
    assert accepts(schema, {"name": "Rex", "secret": "x"})
    assert not accepts(schema, {})
    assert '"id"' not in json.dumps(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "any"},
        {"type": "string", "minLength": "1"},
        {"type": "string", "pattern": "("},
        {"required": True},
        {"enum": []},
        {"properties": []},
        {"items": "x"},
        {"allOf": {}},
        {"$id": "http://x.example/y", "$schema": "http://json-schema.org/draft-04/schema#"},
        {"multipleOf": 0},
    ],
    ids=["type", "length", "pattern", "required", "enum", "properties", "items", "all", "id", "multiple"],
)
def test_a_keyword_with_a_wrong_value_costs_only_the_keyword(schema: Any) -> None:
    converted = schema_of({"type": "object", "properties": {"a": schema, "b": {"type": "integer"}}})
    check_schema(converted, what="tool")
    assert accepts(converted, {"b": 1})
    assert not accepts(converted, {"b": "x"})


def test_a_schema_that_is_too_large_is_shortened_and_no_operation_is_lost() -> None:
    schemas = {
        f"S{n}": {
            "type": "object",
            "description": "long " * 200,
            "properties": {"next": {"$ref": f"#/components/schemas/S{n + 1}"}, "n": {"type": "integer"}},
        }
        for n in range(100)
    }
    schemas["S100"] = {}
    paths = {"/a": {"post": {**operation(), **body({"$ref": "#/components/schemas/S0"})}}}
    result = reading(document(paths, components={"schemas": schemas}), max_schema_bytes=4_000)
    [tool] = result.tools
    assert len(json.dumps(tool.input_schema)) < 6_000
    assert not accepts(tool.input_schema, {"n": "x"})
    assert "the schema of POST /a is shortened" in result.problems[0]
    assert "max_schema_bytes" in result.problems[0]
    types = [each["type"] for each in tool.input_schema["$defs"].values()]
    assert types == ["object"] * len(types)  # also of those that are only outlined


def test_a_property_whose_combined_schemas_are_read_only_is_omitted() -> None:
    parts = {"allOf": [{"type": "object"}, {"readOnly": True}]}
    converted = schema_of({"type": "object", "properties": {"made": parts, "name": {"type": "string"}}})
    assert list(converted["properties"]["body"]["properties"]) == ["name"]


def test_a_schema_that_multiplies_is_cut_and_no_operation_is_lost() -> None:
    schemas = {f"S{n}": {"allOf": [{"$ref": f"#/components/schemas/S{n + 1}"}] * 3} for n in range(30)}
    schemas["S30"] = {"type": "object"}
    paths = {"/a": {"post": {**operation(), **body({"$ref": "#/components/schemas/S0"})}}}
    [tool] = reading(document(paths, components={"schemas": schemas})).tools
    check_schema(tool.input_schema, what="tool")


# --- documents that are wrong or hostile -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reference", ["https://evil.example/a.json", "other.yaml#/a", "file:///etc/passwd", "//evil.example/x"]
)
def test_a_reference_out_of_the_document_is_never_followed(reference: str) -> None:
    paths = {
        "/schema": {
            "post": {"operationId": "one", **body({"type": "object", "properties": {"a": {"$ref": reference}}})}
        },
        "/parameter": {"get": {"operationId": "two", "parameters": [{"$ref": reference}]}},
    }
    result = reading(document(paths))
    assert [tool.name for tool in result.tools] == ["one"]
    assert accepts(result.tools[0].input_schema, {"a": [1]})
    assert [problem for problem in result.problems if "leaves the document and is never fetched" in problem] == list(
        result.problems
    )
    assert any(problem.startswith("GET /parameter: ") for problem in result.problems)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not an OpenAPI document, because it is not an object"),
        ("[]", "is not an OpenAPI document, because it is not an object"),
        ("just words", "is not an OpenAPI document, because it is not an object"),
        ('{"a": ', "neither JSON nor YAML"),
        ("a: [", "neither JSON nor YAML"),
        (b"\xff\xfe\x00", "neither JSON nor YAML"),
        ("swagger: '2.0'", "written in Swagger 2.0; convert it to OpenAPI 3"),
        ("openapi: 4.0.0", "of version 3.0 or 3.1"),
        ("openapi: 3.1.0", "has no operations"),
        ("openapi: 3.1.0\npaths: []", "has no operations"),
        ("openapi: 3.1.0\npaths: {/a: {$ref: '#/paths/~1a'}}", "more than 20 references"),
        ("openapi: 3.1.0\npaths: " + "[" * 100_000, "more than 128 nested levels"),
        ('{"openapi": "3.1.0", "paths": ' + "[" * 100_000, "more than 128 nested levels"),
    ],
    ids=range(13),
)
def test_a_document_that_cannot_be_used_is_refused_in_words(text: str | bytes, message: str) -> None:
    with pytest.raises(CatalogError, match=re.escape(message)):
        reading(text)


def test_a_few_lines_of_yaml_cannot_stand_for_a_billion_values() -> None:
    lines = ["openapi: 3.1.0", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(CatalogError, match="more than 3,000,000 values"):
        reading("\n".join(lines))


def test_yaml_has_the_types_of_json() -> None:
    text = """
openapi: 3.1.0
x-shared: &answer {description: OK}
paths:
  /a:
    get:
      operationId: go
      responses: {200: *answer}
      parameters:
        - {name: on, in: query, schema: {enum: [no, 2020-01-01, 012, 1e3, ~, true, "1", !!str 2, 0x10]}}
"""
    [tool] = reading(text).tools
    assert tool.input_schema["properties"]["on"]["enum"] == ["no", "2020-01-01", 12, 1000.0, None, True, "1", "2", 16]


@pytest.mark.parametrize("text", ["a: *a", "&a [*a]", "? [a]\n: b", "<<: 1\n? {}\n: 2", "--- a\n--- b"])
def test_yaml_that_json_cannot_express_is_refused(text: str) -> None:
    with pytest.raises(CatalogError, match="neither JSON nor YAML"):
        reading(text)


async def test_a_file_that_is_missing_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="larger than the 10 bytes allowed for it"):
        async with opened(tmp_path, document({}), max_document_bytes=10):
            pass
    missing = OpenApiSource(OpenApi(name="api", document=str(tmp_path / "none.json")))
    with pytest.raises(CatalogError, match=r"none\.json cannot be read"):
        await missing.open()


def test_parameters_that_the_path_does_not_name_are_dropped_and_missing_ones_are_texts() -> None:
    odd = {"name": "gone", "in": "path", "required": True, "schema": {"type": "integer"}}
    [tool] = reading(document({"/a/{id}": {"get": operation(odd)}})).tools
    assert tool.input_schema["properties"] == {"id": {"type": "string"}}


async def test_a_source_lists_its_tools_after_it_is_opened(tmp_path: Path) -> None:
    async with opened(tmp_path, document({"/a": {"get": operation()}})) as source:
        assert (tool_named(source, "go").source, source.revision) == ("api", 1)


def test_many_operations_of_one_id_and_many_parameters_of_one_name_are_named_in_linear_time() -> None:
    equal = {f"/a{number}": {"get": {"operationId": "go"}} for number in range(5_000)}
    odd = [{"name": f"{'!' * number}a", "in": "query", "schema": {}} for number in range(1, 1_000)]
    wide = [{"name": f"p{number}", "in": "query", "schema": {}} for number in range(10_000)]
    paths = {**equal, "/odd": {"get": {"parameters": odd}}, "/wide": {"get": {"parameters": wide}}}
    tools = reading(document(paths), max_schema_bytes=10_000_000).tools
    assert len({tool.name for tool in tools}) == len(paths)
    assert [len(tool.input_schema.get("properties", ())) for tool in tools[-2:]] == [999, 10_000]


@pytest.mark.parametrize(
    "server",
    [
        {"url": "http://[bad"},
        {"url": "http://x:99999999"},
        {"url": "{a0}", "variables": {f"a{n}": {"default": f"{{a{n + 1}}}" * 10} for n in range(12)}},
    ],
    ids=["host", "port", "multiplying"],
)
def test_a_server_that_is_no_address_makes_its_operation_uncallable_and_no_other(server: Any) -> None:
    paths = {"/a": {"get": {"operationId": "bad", "servers": [server]}}, "/b": {"get": {"operationId": "good"}}}
    assert list(reading(document(paths), servers=("https://a.example",)).servers) == ["good"]


def test_a_required_list_and_a_reference_of_nonsense_cost_no_operation() -> None:
    assert accepts(schema_of({"type": "object", "required": [{}, [], "a"]}), {"a": 1})
    assert accepts(schema_of({"$ref": "#/servers/" + "9" * 5000}, servers=[{}]), 1)
