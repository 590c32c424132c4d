from __future__ import annotations

import time

import msgspec
import pytest

from toolcaddie.audit.redact import REDACTED, is_secret_name, redact, redact_json, redact_secrets, redact_text


@pytest.mark.parametrize(
    "secret",
    [
        "sk-abcdefghijklmnop1234",
        "sk-proj-abc_def-ghijklmnop1234",
        "sk-ant-api03-abcdefghijklmnop",
        "tc_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "github_pat_11ABCDEFG0abcdefghijkl",
        "glpat-abcdefghijklmnopqrst",
        "xoxb-123456789012-abcdefghij",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA1234567890abcdefghijklmnopqrstuv",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    ],
)
def test_values_that_look_like_keys_are_gone_wherever_they_stand(secret: str) -> None:
    assert redact_text(f"use {secret}, please") == f"use {REDACTED}, please"
    assert redact_text(secret) == REDACTED
    assert redact({"note": [f"({secret})"]}) == {"note": [f"({REDACTED})"]}


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abc.def-ghi_jkl", f"Authorization: Bearer {REDACTED}"),
        ("curl -H 'authorization: Basic QWxhZGRpbjpvcGVu'", f"curl -H 'authorization: Basic {REDACTED}'"),
        ("postgresql://ann:hunter2@db/gym", f"postgresql://ann:{REDACTED}@db/gym"),
        ("password: hunter2, then go on", f"password: {REDACTED}, then go on"),
        ("DB_PASSWORD=hunter2", f"DB_PASSWORD={REDACTED}"),
        ('"apiKey": "two words"', f'"apiKey": {REDACTED}'),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nbye",
            f"{REDACTED}\nbye",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIE and cut off", REDACTED),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUt/FEMI", f"AWS_SECRET_ACCESS_KEY={REDACTED}"),
        ("private_key=abc, access_key: def", f"private_key={REDACTED}, access_key: {REDACTED}"),
        ("server=db;pwd=hunter2;AccountKey=abc==;x=1", f"server=db;pwd={REDACTED};AccountKey={REDACTED};x=1"),
        ("jwt: abc otp=123456 'session_id' => 'a b'", f"jwt: {REDACTED} otp={REDACTED} 'session_id' => {REDACTED}"),
        ("Cookie: session=abc; theme=dark\nHost: x", f"Cookie: {REDACTED}\nHost: x"),
        ("Set-Cookie: id=abc; HttpOnly", f"Set-Cookie: {REDACTED}"),
        ("curl -H 'Cookie: a=b; c=d' https://x", f"curl -H 'Cookie: {REDACTED}' https://x"),
        ("Authorization: Token 9944b091", f"Authorization: Token {REDACTED}"),
        (
            'Authorization: Digest username="ann", response="6629"',
            f"Authorization: Digest {REDACTED}",
        ),
        ("Authorization: hunter2 and more", f"Authorization: {REDACTED}"),
        (
            "https://x/a?id=7&X-Amz-Signature=abc&sig=d&n=1",
            f"https://x/a?id=7&X-Amz-Signature={REDACTED}&sig={REDACTED}&n=1",
        ),
        ("https://x/?token=abc&k=1", f"https://x/?token={REDACTED}&k=1"),
        ("postgres://u:p@ss@h/db", f"postgres://u:{REDACTED}@h/db"),
        ('"dsn":"postgres://u:p@h","mail":"a@b.c"', f'"dsn":"postgres://u:{REDACTED}@h","mail":"a@b.c"'),
        (r'"password": "a\" b", "c": 1', f'"password": {REDACTED}, "c": 1'),
        (r"{\"password\":\"a b\",\"c\":1}", rf"{{\"password\":{REDACTED},\"c\":1}}"),
        ('"credentials": {"user": "ann", "pass": "x"}, "c": 1', f'"credentials": {REDACTED}, "c": 1'),
        ("{'name': 'Authorization', 'value': 'Token zzz'}", f"{{'name': 'Authorization', 'value': {REDACTED}}}"),
    ],
)
def test_secrets_in_running_text_are_gone(text: str, clean: str) -> None:
    assert redact_text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "freeze John's membership for 30 days",
        "the secretary asked for 500 tokens",
        "task_list and sk-ip are short",
        "https://example.org/a:b@c",
        "basic plan, premium plan",
        "author: Ann; token ring: no",
        "He bears it.",
        "key: F sharp, keyword: x, tokens: 500, shipping: free, signature: required",
        "password: null, secret=false",
        "{'name': 'shoe size', 'value': '44'}",
        "",
    ],
)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "db_password",
        "apiKey",
        "API_KEY",
        "x-api-key",
        "accessToken",
        "token",
        "Authorization",
        "client_secret",
        "privateKey",
        "AWSSecretAccessKey",
        "cookie",
        "credentials",
        "passwd",
        "refresh_token",
        "accesstoken",
        "access_tokens",
        "X-Amz-Signature",
        "jwt",
        "bearer",
        "otp",
        "pin",
        "card_pin",
        "session_id",
        "PHPSESSID",
        "cookies",
        "x" * 200 + "_password",
    ],
)
def test_names_that_say_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "pinned",
        "shipping",
        "session",
        "signature",
        "sign",
        "key",
        "keyword",
        "tokens",
        "max_tokens",
        "token_count",
        "secretary",
        "passport",
        "author",
        "primary_key",
        "",
    ],
)
def test_names_that_do_not(name: str) -> None:
    assert not is_secret_name(name)


def test_fields_named_like_secrets_lose_their_value_at_any_depth() -> None:
    value = {"user": "ann", "auth": [{"token": "abc", "password": 1234, "secret": {"a": 1}, "tokens": 5}]}
    assert redact(value) == {
        "user": "ann",
        "auth": [{"token": REDACTED, "password": REDACTED, "secret": REDACTED, "tokens": 5}],
    }


@pytest.mark.parametrize(("label", "holder"), [("name", "value"), ("Key", "Value")])
def test_a_value_whose_name_stands_beside_it_is_gone(label: str, holder: str) -> None:
    headers = [{label: "Authorization", holder: "Token zzz"}, {label: "Accept", holder: "text"}]
    assert redact(headers) == [{label: "Authorization", holder: REDACTED}, {label: "Accept", holder: "text"}]
    assert redact({"name": "password", "label": "Password"}) == {"name": "password", "label": "Password"}


def test_empty_secrets_and_switches_stay_because_they_tell_something() -> None:
    value = {"password": None, "token": "", "secret": True}
    assert redact(value) == value


def test_json_arguments_are_cleaned_by_field_and_stay_json() -> None:
    clean = redact_json('{"user": "ann", "password": "a \\" b", "nested": {"apiKey": "x"}}')
    assert msgspec.json.decode(clean) == {"user": "ann", "password": REDACTED, "nested": {"apiKey": REDACTED}}


def test_json_without_secrets_is_kept_byte_for_byte() -> None:
    text = '{ "b": 1.0,\n "a": "x" }'
    assert redact_json(text) == text


@pytest.mark.parametrize(
    "text", ['{"password": "hunter2", ', "password='hunter2'", '"password":"hunter2"' + " " * 70_000]
)
def test_arguments_that_are_no_json_or_huge_are_cleaned_as_text(text: str) -> None:
    assert "hunter2" not in redact_json(text)


@pytest.mark.parametrize(
    "field",
    [
        '"aws_secret_access_key":"wJalr"',
        '"cookie":"wJalr"',
        '"access_tokens":["wJalr"]',
        '"headers":[{"name":"Authorization","value":"Token wJalr"}]',
        r'"body":"{\"pin\":\"wJalr\"}"',
    ],
)
def test_a_field_that_is_secret_is_secret_in_json_of_any_size(field: str) -> None:
    for text in (f"{{{field}}}", f'{{{field},"a":"{"x" * 70_000}"}}', f'{{"a":"{"x" * 70_000}",{field}}}'):
        assert "wJalr" not in redact_json(text)


def test_deep_nesting_ends_in_a_mark_and_not_in_a_crash() -> None:
    deep = '{"a":' * 2_000 + '"sk-abcdefghijklmnop1234"' + "}" * 2_000
    assert "sk-abc" not in redact_json(deep)


@pytest.mark.parametrize(
    "hostile",
    [
        "password",
        "token: ",
        "://a:",
        "eyJ",
        "-----BEGIN PRIVATE KEY-----",
        "bearer ",
        "secret = ",
        "sk-",
        "a@:// ",
        "a",
        "a.-:",
        'pin: "',
        "pin: [",
        "cookie: ",
        "cookie",
        '"key":"pin","value":"',
        "\\\\",
        "key ",
        "://a:@",
        "-eyJ",
        "QUJDREVGR0hJSktMTU5P",
        "QUJDREVGR0hJSktMTU5P\n",
        "QUJDREVGR0hJSktMTU5P\\",
    ],
)
def test_hostile_text_does_not_take_long(hostile: str) -> None:
    begun = time.process_time()
    redact_text((hostile * 65_536)[:65_536])
    redact_text(hostile + " " * 65_536)
    assert time.process_time() - begun < 0.25


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("+525587654321", "•••321"),
        ("call +52 (55) 8765-43 21, please", "call •••321, please"),
        ('{"contact": "+14158675309"}', '{"contact": "•••309"}'),
        ("+525587654321+525587654321", "•••321+525587654321"),
        ("1+525587654321", "1+525587654321"),
        ("at 2026-05-04T12:00:00+02:00, 3 + 4 = 7, a+12345678b, +1234567", None),
        ("+12345678901234567890", None),
    ],
)
def test_of_a_telephone_number_with_its_country_the_last_three_digits_stay(text: str, clean: str | None) -> None:
    assert redact_text(text) == (text if clean is None else clean)


def test_whoever_is_asked_about_a_call_reads_numbers_whole_and_no_secret() -> None:
    arguments = {
        "to": "+525587654321",
        "password": "hunter2",
        "notes": ["call +1 415 867 5309 with sk-0123456789abcdefghij"],
    }
    shown = redact_secrets(arguments)
    assert shown == {"to": "+525587654321", "password": REDACTED, "notes": [f"call +1 415 867 5309 with {REDACTED}"]}
    assert redact(arguments)["to"] == "•••321"


def test_many_beginnings_of_telephone_numbers_take_linear_time() -> None:
    for piece in ("+1", "+1 2 3 4 5 6 ", "+1(.2(.3", "++++1"):
        began = time.perf_counter()
        redact_text(piece * 50_000)
        assert time.perf_counter() - began < 2
