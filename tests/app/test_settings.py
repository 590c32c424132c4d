from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from structlog.testing import capture_logs

from toolcaddie.app.settings import (
    DEFAULT_DATABASE,
    CacheSettings,
    CatalogSettings,
    DeliverySettings,
    FallbackSettings,
    JobSettings,
    Learning,
    Settings,
    StorageSettings,
    Upstream,
    effective_preset,
    load_settings,
    starter_toml,
)
from toolcaddie.app.settings.schema import bare, file_schema, table_fields
from toolcaddie.control.bots import Bot, Role
from toolcaddie.core.capabilities import CacheRule, Capabilities, Prices
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import PRESETS, SelectionSettings, preset
from toolcaddie.core.run import Limits
from toolcaddie.core.selection import Budget


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(folder: Path, text: str, **environ: str) -> Settings:
    (folder / "toolcaddie.toml").write_text(text)
    return load_settings(environ=environ)


def complaint(folder: Path, text: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as raised:
        loaded(folder, text, **environ)
    return str(raised.value)


def test_without_a_file_everything_has_a_default(folder: Path) -> None:
    settings = load_settings(environ={})
    assert settings == Settings()
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8321)
    assert settings.database_url == DEFAULT_DATABASE
    assert settings.upstream.key_env is None


def test_a_file_of_the_folder_is_read(folder: Path) -> None:
    settings = loaded(
        folder,
        """
        preset = "keyword"
        model = "gpt-5-mini"
        catalogs = ["gym", "python:mine"]
        [server]
        port = 9000
        [bots.front-desk]
        disabled_tools = ["delete_member"]
        categories = ["members"]
        """,
    )
    assert (settings.preset, settings.model, settings.catalogs) == ("keyword", "gpt-5-mini", ("gym", "python:mine"))
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 9000)
    assert settings.bots == {"front-desk": Bot(disabled_tools=("delete_member",), categories=("members",))}


def test_a_file_that_was_named_must_be_there(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml cannot be read: No such file.*toolcaddie init"):
        load_settings(Path("missing.toml"), environ={})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[limits]\n\nround = 3", "toolcaddie.toml:3: unknown key 'limits.round'; did you mean 'rounds'?"),
        (
            "[storage]\nkeep = '90'",
            "toolcaddie.toml:2: storage.keep: this text is not valid here; write a text in quotes such as",
        ),
        (
            "[storage]\nlease = inf",
            "toolcaddie.toml:2: storage.lease: Expected `float` <= 3600.0; write a number above 0 to",
        ),
        (
            "[approvals]\nexpiry = 'off'",
            "toolcaddie.toml:2: approvals.expiry: this text is not valid here; write a text in quotes such as",
        ),
        ("servr = 1", "toolcaddie.toml:1: unknown key 'servr'; did you mean 'server'?"),
        ("\n\nserver.prt = 1", "toolcaddie.toml:3: unknown key 'server.prt'; did you mean 'port'?"),
        ("server = {prt = 1}", "toolcaddie.toml:1: unknown key 'server.prt'"),
        ("[bots.desk]\ndisable_tools = []", "toolcaddie.toml:2: unknown key 'bots.desk.disable_tools'"),
        (
            "[policy]\n[policy.roles.clerk]\ncategries = []",
            "toolcaddie.toml:3: unknown key 'policy.roles.clerk.categries'; did you mean 'categories'?",
        ),
        (
            "[policy]\n[policy.roles.clerk]\ncategories = 'work'",
            "toolcaddie.toml:3: policy.roles.clerk.categories: Expected",
        ),
        (
            "zzz = 1",
            "there are approvals, approver, audit, bots, bounds, breakers, budget, cache, capabilities, catalog, catalogs, "
            "channel, claims, classifier, console, database_url, default_bot",
        ),
        ("[upstream]\nkey = 'sk-secret'", "unknown key 'upstream.key'; did you mean 'key_env'?"),
        ("preset = 'defualt'", "toolcaddie.toml:1: no preset 'defualt'; did you mean 'default'?"),
        (
            "[server]\nport = 'x'",
            "toolcaddie.toml:2: server.port: Expected `int`, got `str`; write a whole number from 0 to",
        ),
        ("[server]\nport = 70000", "write a whole number from 0 to 65535"),
        ("server = 3", "write a table with host, port"),
        (
            "bots = 3",
            "bots: Expected `object`, got `int`; write a table of tables, each under a header with its name",
        ),
        ("[bots.a]\n[bots.b]\ncategories = 1", "toolcaddie.toml:3: bots.b.categories"),
        ("catalogs = 'gym'", 'catalogs: Expected `array`, got `str`; write a list of texts like ["one", "two"]'),
        (
            "[policy]\ndeny = 'delete_*'",
            'toolcaddie.toml:2: policy.deny: Expected `array`, got `str`; write a list of texts like ["one", "two"]',
        ),
        (
            "[programs]\noffer = 'always'",
            'toolcaddie.toml:2: programs.offer is "always", but nothing runs programs; add a table [interpreter]',
        ),
        ("[upstream]\nurl = 'api.openai.com'", "that begins with http:// or https://"),
        ("[budget]\npolicy = 'best'", 'write "proportional", "fair", "ranked"'),
        (
            "[[fallback]]\nmodel='a:b'\n\n[[fallback]]\nmodle='c:d'",
            "toolcaddie.toml:5: unknown key 'fallback.2.modle'; did",
        ),
        (
            "[[fallback]]\nmodel='a:b'\n[[fallback]]\nmodel='a:b'\nurl='x'",
            "toolcaddie.toml:5: fallback.2.url: this text is not valid here; write a text in quotes that begins with http:// or",
        ),
        ("[[fallback]]\nmodel='a:b'\n[[fallback]]\nurl='http://x'", "toolcaddie.toml:3: fallback.2: Object missing"),
        ("[[fallback]]\nmodel=''", "toolcaddie.toml:2: fallback.1.model: Expected `str` of length >= 1"),
        (
            "[fallback]\nmodel='a:b'",
            "toolcaddie.toml:1: fallback: Expected `array`, got `object`; write tables under a head",
        ),
        (
            "fallback = ['openai:x']",
            "toolcaddie.toml:1: fallback.1: Expected `object`, got `str`; write a table with model,",
        ),
        (
            "[upstream]\nattempts = 0",
            "toolcaddie.toml:2: upstream.attempts: Expected `int` >= 1; write a whole number from",
        ),
        (
            "[[capabilities]]\npattern='x'\nmsk='y'",
            "toolcaddie.toml:3: unknown key 'capabilities.1.msk'; did you mean 'mask'",
        ),
        (
            "[[capabilities]]\npattern='x'\n[[capabilities]]\npattern='y'\n[capabilities.prices]\ninput=1\noutput='2'",
            "toolcaddie.toml:7: capabilities.2.prices.output: Expected `float`, got `str`; write a number from 0",
        ),
        (
            "[[bots]]\nname='x'",
            "toolcaddie.toml:1: bots: Expected `object`, got `array`; write a table of tables, each under a",
        ),
        ("[[capabilities]]\ntool_cap=1", "toolcaddie.toml:1: capabilities.1: Object missing required field `pattern`"),
        (
            "[[capabilities]]\npattern='x'\nmask='m'",
            "mask: Invalid enum value 'm'; write \"",
        ),
        ("[delivery]\nmode = 'best'", 'write "auto", "direct", "masked", "native"'),
        (
            "[cache]\nmode = 'all'",
            'toolcaddie.toml:2: cache.mode: Invalid enum value \'all\'; write "off", "declared", "everything"',
        ),
        (
            "[tool_config]\nforce_tool_use = true\nmax_retires = 3",
            "toolcaddie.toml:3: toolConfig: unknown key 'max_retires'; did you mean 'maxRetries'?",
        ),
        ("[tool_config]\ntoolTimeout = 'x'", "toolcaddie.toml:2: toolConfig: 'toolTimeout' must be a number above 0"),
        (
            "[tool_config]\n[tool_config.fallback_provider]\nprovider = 'openai'\nmodel = ''",
            "toolcaddie.toml:4: toolConfig.fallbackProvider: 'model' must be a text",
        ),
        (
            "[tool_config.fallbackProvider]\nmodel = 'm'",
            "toolcaddie.toml:1: toolConfig.fallbackProvider: 'provider' is mis",
        ),
        (
            "[tool_config.fallbackProvider]\nprovider = 'openai'\nmodel = 'm'\napiKey = 'sk-secret'",
            "toolcaddie.toml:4: tool_config.fallbackProvider.apiKey: a key is never written into this file",
        ),
        (
            "[[fallback]]\nmodel = 'ollama:m'\n[[fallback]]\nmodel = 'olama:m'",
            "toolcaddie.toml:4: fallback.2.model: no provider 'olama'; did you mean 'ollama'?",
        ),
        (
            "[[fallback]]\nmodel = 'pro'",
            "toolcaddie.toml:2: fallback.1.model: 'pro' names no provider; write provider:model;",
        ),
        (
            "[tool_config.fallback_provider]\nprovider = 'antropic'\nmodel = 'm'",
            "toolcaddie.toml:2: tool_config.fallback_provider.provider: no provider 'antropic'; did you mean 'anthropic'?",
        ),
        (
            "[upstream]\nprovider = 'olama'",
            "toolcaddie.toml:2: upstream.provider: no provider 'olama'; did you mean 'ollama'?",
        ),
        (
            "[upstream]\nmodel = 'm'",
            "unknown key 'upstream.model'; write it at the top of the file, above the first [table]",
        ),
        (
            "[limits]\nturns = 10",
            "toolcaddie.toml:2: unknown key 'limits.turns'; the limit of executed tool calls is now limits.calls",
        ),
        ("tool_config = 3", "toolcaddie.toml:1: tool_config: Expected `object | null`, got `int`; write a table"),
        ("x = [", "toolcaddie.toml is not valid TOML"),
        ("a = 1\nb = = 2\n", "(at line 2, column"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_what_to_do(folder: Path, text: str, said: str) -> None:
    assert said in complaint(folder, text)


def test_a_file_that_is_no_text_says_where(folder: Path) -> None:
    (folder / "toolcaddie.toml").write_bytes(b'model = "\xff"')
    with pytest.raises(ConfigError, match=r"not UTF-8 text: .* at byte 9"):
        load_settings(environ={})


@pytest.mark.proves("R002-14")
@pytest.mark.parametrize("rounds", [1, 5, 10])
def test_rounds_may_be_1_to_10(folder: Path, rounds: int) -> None:
    assert effective_preset(loaded(folder, f"[limits]\nrounds = {rounds}")).limits.rounds == rounds


@pytest.mark.proves("R002-14")
@pytest.mark.parametrize("rounds", ["0", "11", "-1", "2.5", "true", '"five"'])
def test_other_numbers_of_rounds_are_refused(folder: Path, rounds: str) -> None:
    said = complaint(folder, f"[limits]\nrounds = {rounds}")
    assert "limits.rounds" in said
    assert 'write a whole number from 1 to 10 or "off"' in said


def test_overrides_change_single_values_of_the_preset_and_off_takes_a_limit_away(folder: Path) -> None:
    settings = loaded(
        folder,
        """
        preset = "budget"
        [selection]
        match = "substring"
        related_depth = "off"
        [budget]
        max_tools = 12
        [limits]
        rounds = "off"
        seconds = 60
        """,
    )
    chosen, source = effective_preset(settings), preset("budget")
    assert (chosen.selection.match, chosen.selection.related_depth) == ("substring", None)
    assert (chosen.budget.max_tools, chosen.budget.policy) == (12, "proportional")
    assert (chosen.limits.rounds, chosen.limits.seconds) == (None, 60.0)
    assert (chosen.meta, chosen.limits.repeats_warn) == (source.meta, source.limits.repeats_warn)


def test_the_model_side_of_a_file_is_read(folder: Path) -> None:
    settings = loaded(
        folder,
        """
        model = "anthropic:claude-sonnet-5-5"
        [upstream]
        attempts = 5
        [[fallback]]
        model = "openai:gpt-5-mini"
        [[fallback]]
        model = "vllm:qwen"
        url = "http://gpu-box:8000/v1"
        key_env = "GPU_BOX"
        [[capabilities]]
        pattern = "qwen*"
        tool_cap = "off"
        [tool_config]
        forceToolUse = true
        [delivery]
        mode = "direct"
        [cache]
        mode = "everything"
        keep = "database"
        [limits]
        tool_retries = 2
        tool_seconds_most = "off"
        """,
    )
    assert (settings.model, settings.upstream.attempts, settings.cache.keep) == (
        "anthropic:claude-sonnet-5-5",
        5,
        "database",
    )
    assert settings.fallback == (
        FallbackSettings(model="openai:gpt-5-mini"),
        FallbackSettings(model="vllm:qwen", url="http://gpu-box:8000/v1", key_env="GPU_BOX"),
    )
    assert (settings.capabilities[0].pattern, settings.capabilities[0].tool_cap) == ("qwen*", None)
    chosen = effective_preset(settings)
    assert (chosen.delivery, chosen.cache) == ("direct", "everything")
    assert (chosen.limits.tool_retries, chosen.limits.tool_seconds_most) == (2, None)


def test_an_error_does_not_show_the_key_that_was_written_into_the_file(folder: Path) -> None:
    given = "[tool_config.fallback_provider]\nprovider = 'openai'\nmodel = 'm'\napi_key = 'sk-secret'"
    assert "sk-secret" not in complaint(folder, given)
    assert "sk-secret" not in complaint(folder, given.replace("'sk-secret'", "['sk-secret']"))


@pytest.mark.parametrize(
    "key",
    [
        "sk-0123456789",
        "sk_live_0123",
        "gsk_aBcDeFgHiJkLmNoPqRsTuV01",
        "AIzaSyA0123456789abcdefghijklmno",
        "a" * 65,
        "a b",
    ],
)
@pytest.mark.parametrize("table", ["[upstream]", "[classifier]", "[embedding]", "[[fallback]]\nmodel = 'ollama:m'"])
def test_a_key_where_its_variable_belongs_is_refused_and_not_shown(folder: Path, table: str, key: str) -> None:
    said = complaint(folder, f"{table}\nkey_env = '{key}'")
    assert ".key_env: this looks like a key; name the environment variable that holds it" in said
    assert key not in said
    with pytest.raises(ConfigError, match="this looks like a key") as raised:
        load_settings(environ={"TOOLCADDIE_UPSTREAM_KEY_ENV": key})
    assert key not in str(raised.value)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "_k", "myKey2", "THE_KEY_OF_OUR_SECOND_TEAM_IN_ROOM_12"])
def test_names_of_variables_are_taken(folder: Path, name: str) -> None:
    assert loaded(folder, f"[upstream]\nkey_env = '{name}'").upstream.key_env == name


def test_delivery_and_cache_can_be_set_from_the_environment(folder: Path) -> None:
    settings = loaded(
        folder,
        "[[fallback]]\nmodel = 'openai:x'\n[tool_config]\nforce_tool_use = true\n[[capabilities]]\npattern = '*'",
        TOOLCADDIE_DELIVERY_MODE="masked",
        TOOLCADDIE_CACHE_KEEP="database",
        TOOLCADDIE_UPSTREAM_PROVIDER="ollama",
        TOOLCADDIE_UPSTREAM_ATTEMPTS="2",
    )
    assert (effective_preset(settings).delivery, settings.cache.keep) == ("masked", "database")
    assert (settings.upstream.provider, settings.upstream.attempts) == ("ollama", 2)
    assert settings.fallback == (FallbackSettings(model="openai:x"),)
    assert settings.tool_config == {"force_tool_use": True}
    assert settings.capabilities[0].pattern == "*"


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_without_overrides_every_preset_stays_as_it_is(name: str) -> None:
    assert effective_preset(Settings(preset=name)) == preset(name)


@pytest.mark.parametrize(
    ("table", "values"), [("selection", SelectionSettings), ("budget", Budget), ("limits", Limits)]
)
def test_every_value_of_a_preset_can_be_set(table: str, values: Any) -> None:
    assert list(table_fields(table_fields(file_schema())[table])) == [item.name for item in fields(values)]


def test_every_value_of_a_memory_can_be_set_and_off_takes_the_age_away(folder: Path) -> None:
    assert list(table_fields(table_fields(file_schema())["learning"])) == [item.name for item in fields(Learning)]
    assert loaded(folder, "").learning == Learning()
    learning = loaded(
        folder, "[learning]\nenabled = true\nkeep_days = 'off'", TOOLCADDIE_LEARNING_SCOPE="principal"
    ).learning
    assert learning == Learning(enabled=True, keep_days=None, scope="principal")


def test_every_field_of_a_model_can_be_set(folder: Path) -> None:
    """Prices and cache rules too: what a row of the settings holds is what the class has, and nothing twice."""
    (row,) = loaded(
        folder,
        "[[capabilities]]\npattern = 'x'\nprices = {input = 2, output = 8}\ncache = {kind = 'automatic', step = 8}",
    ).capabilities
    assert row.prices == Prices(input=2, cached=2, written=2, output=8)
    assert row.cache == CacheRule(kind="automatic", step=8)
    table = next(iter(get_args(table_fields(file_schema())["capabilities"])))
    assert set(table_fields(table)) == {item.name for item in fields(Capabilities)} - {"says"}
    for name, kind in {"prices": Prices, "cache": CacheRule}.items():
        assert list(table_fields(bare(table_fields(table)[name]))) == [item.name for item in fields(kind)]


def test_the_environment_wins_over_the_file(folder: Path) -> None:
    settings = loaded(
        folder,
        "preset = 'keyword'\n[server]\nport = 9000\nhost = '::1'",
        TOOLCADDIE_SERVER_PORT="9001",
        TOOLCADDIE_CATALOGS="gym, tools.jsonl",
        TOOLCADDIE_LIMITS_ROUNDS="off",
        TOOLCADDIE_BUDGET_MAX_TOOLS="12",
        TOOLCADDIE_BUDGET_RESERVE_TOKENS="0.5",
        TOOLCADDIE_SELECTION_RANKERS="bm25",
        TOOLCADDIE_SELECTION_WHOLE_IF_IT_FITS="false",
        TOOLCADDIE_LOG_JSON="true",
        TOOLCADDIE_UPSTREAM_URL="http://127.0.0.1:11434/v1",
        TOOLCADDIE_MODEL="8",
    )
    assert (settings.preset, settings.server.host, settings.server.port) == ("keyword", "::1", 9001)
    assert settings.catalogs == ("gym", "tools.jsonl")
    assert (settings.log.json, settings.upstream.url, settings.model) == (True, "http://127.0.0.1:11434/v1", "8")
    chosen = effective_preset(settings)
    assert (chosen.limits.rounds, chosen.budget.max_tools, chosen.budget.reserve_tokens) == (None, 12, 0.5)
    assert (chosen.selection.rankers, chosen.selection.whole_if_it_fits) == (("bm25",), False)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TOOLCADDIE_SERVER_PORT", "http", "environment variable TOOLCADDIE_SERVER_PORT: "),
        ("TOOLCADDIE_LIMITS_ROUNDS", "11", "write a whole number from 1 to 10"),
        (
            "TOOLCADDIE_PRESET",
            "budgt",
            "environment variable TOOLCADDIE_PRESET: no preset 'budgt'; did you mean 'budget'",
        ),
        ("TOOLCADDIE_LOG_LEVEL", "loud", 'write "debug", "info", "warning", "error"'),
        ("TOOLCADDIE_LOG_JSON", "perhaps", "write true or false"),
    ],
)
def test_a_wrong_variable_is_named(folder: Path, name: str, value: str, said: str) -> None:
    assert said in complaint(folder, "", **{name: value})


def test_a_mistyped_variable_is_warned_about_and_a_platform_s_own_is_not(folder: Path) -> None:
    """Kubernetes sets TOOLCADDIE_PORT_8321_TCP for a service named toolcaddie: that must not stop the start."""
    with capture_logs() as logs:
        loaded(folder, "", TOOLCADDIE_SERVER_PROT="1", TOOLCADDIE_PORT_8321_TCP="tcp://10.0.0.1", TOOLCADDIE_XYZ="1")
    assert [(line["event"], line["name"], line["did_you_mean"]) for line in logs] == [
        ("unknown_environment_variable", "TOOLCADDIE_SERVER_PROT", "TOOLCADDIE_SERVER_PORT")
    ]


def test_the_starter_file_is_valid_and_sets_the_gym(folder: Path) -> None:
    assert loaded(folder, starter_toml()) == Settings(catalogs=("gym",))


def test_what_the_starter_file_comments_out_are_the_defaults(folder: Path) -> None:
    lines = starter_toml().splitlines()
    uncommented = [line[2:] if line.startswith("# ") and (" = " in line or line[2] == "[") else line for line in lines]
    settings = loaded(folder, "\n".join(uncommented))
    changed = effective_preset(settings)
    assert (settings.server, settings.database_url, settings.log) == (
        Settings().server,
        DEFAULT_DATABASE,
        Settings().log,
    )
    assert changed == preset("default")
    assert settings.bots["front-desk"].disabled_tools == ("delete_client",)


PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_file_shown_in_the_docs_is_valid_and_shows_the_defaults(folder: Path) -> None:
    (example,) = [block.split("```")[0] for block in PAGE.read_text().split("```toml\n")[1:]]
    settings = loaded(folder, example)
    assert effective_preset(settings) == preset("default")
    assert (settings.server, settings.database_url, settings.log) == (
        Settings().server,
        DEFAULT_DATABASE,
        Settings().log,
    )
    assert settings.jobs == JobSettings()


def test_the_source_cron_has_no_zone_of_its_own(folder: Path) -> None:
    wrong = complaint(folder, '[[source]]\ntype = "cron"\ntimezone = "Europe/Madrid"')
    assert (
        wrong == "toolcaddie.toml:3: unknown key 'source.1.timezone'; the time zone of jobs is zone in the table [jobs]"
    )


def test_the_zone_of_jobs_must_exist_in_the_file_and_in_the_environment(folder: Path) -> None:
    assert loaded(folder, '[jobs]\nzone = "europe/madrid"').jobs.zone == "europe/madrid"
    wrong = complaint(folder, '[jobs]\ncatch_up = "all"\nzone = "Europe/Madird"')
    assert wrong.startswith(
        "toolcaddie.toml:3: jobs.zone: there is no time zone 'Europe/Madird'; did you mean Europe/Madrid"
    )
    in_variable = complaint(folder, "", TOOLCADDIE_JOBS_ZONE="Mars")
    assert in_variable.startswith(
        "environment variable TOOLCADDIE_JOBS_ZONE: jobs.zone: there is no time zone 'Mars'; "
    )
    assert "write skip, last" in complaint(folder, '[jobs]\ncatch_up = "none"').replace('"', "")
    assert "from 1 to 86400" in complaint(folder, "[jobs]\nleast_seconds = 0.5")
    assert "did you mean 'per_person'" in complaint(folder, "[jobs]\nper_persn = 3")


def test_every_key_is_documented() -> None:
    page = PAGE.read_text()
    for table in (
        Settings,
        *(SelectionSettings, Budget, Limits, Learning),
        DeliverySettings,
        CacheSettings,
        FallbackSettings,
        Bot,
        Role,
        CatalogSettings,
        StorageSettings,
        Upstream,
        type(Settings().server),
        JobSettings,
    ):
        for name in table_fields(table):
            assert f"{name} =" in page or f"[{name}" in page, name


def test_the_tool_configuration_shown_in_the_docs_is_valid(folder: Path) -> None:
    shown = PAGE.read_text().split("```text\n[tool_config]\n")[1].split("```")[0]
    settings = loaded(folder, f"[tool_config]\n{shown}")
    assert settings.tool_config is not None
    assert {_camel(key) for key in settings.tool_config} == set(_TOOL_CONFIG)


_TOOL_CONFIG = (
    "forceToolUse",
    "onToolNotCalled",
    "maxRetries",
    "toolTimeout",
    "fallbackProvider",
    "validateToolResponse",
    "cacheResults",
)


def _camel(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join(map(str.capitalize, others))


def test_weights_of_rankers_are_numbers_that_are_not_negative(folder: Path) -> None:
    chosen = effective_preset(loaded(folder, "[selection.weights]\ncharacters = 0.4\nembedding = 2"))
    assert chosen.selection.weights == {"characters": 0.4, "embedding": 2.0}
    said = complaint(folder, "[selection]\nweights = {characters = -1}")
    assert said.startswith("toolcaddie.toml:2: selection.weights")
    assert said.endswith("write a table of numbers")
