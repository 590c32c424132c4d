"""Finds claims in an answer: sentences which say that something was done, and which no successful call supports.

`claims_of` reads the answer and returns what it says was done. `unsupported` compares it with the calls. Both take values and
return values; nothing here changes or withholds an answer. They are lenient, because a false alarm costs more than a miss:

- A sentence with a speaker ("I deleted", "he borrado") needs a successful call of a tool of that class of actions.
- A sentence without one ("has been deleted") counts only if the request asked for an action, and is also supported by any
  result that says the same, such as the status that a reading call found.
- A tool whose words tell no class supports every claim, and so does one that can do anything, such as a shell.

`claims.toml` has the words, in six languages. The time is linear in the length of the text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Literal, cast

from toolcaddie.core.claims import Action, Claim

_TEXT = 10_000
"""Characters at the beginning, and at the end, of an answer that are read."""
_EVIDENCE = 8_000
"""Characters of arguments and of a result that are read."""
_DESCRIPTION = 300
_SENTENCE = 300
_MOST_CLAIMS = 20
"""The largest number of claims of one answer."""
_MOST_TOKENS = 120
"""Tokens of a sentence that are read. A longer one is a list or a table, not a statement."""
_LONG = 300
"""Characters from which an answer may contain the text that it talks about."""
_SHORT = 5
"""Tokens of a sentence such as "Client deleted", which has no verb."""
_REACH = 14
"""Tokens between a German auxiliary verb and its participle, or between two verbs of one speaker."""

_LANGUAGES = ("en", "es", "pt", "de", "fr", "it", "es_i", "pt_i")
"""Keys of the forms in `claims.toml`."""

_ENDINGS = {
    "en": re.compile(r"e?d$"),
    "es": re.compile(r"[aií]do$"),
    "pt": re.compile(r"[aií]do$"),
    "fr": re.compile(r"é$"),
    "it": re.compile(r"[aiu]to$"),
}
"""Endings of participles."""
_SHORTEST, _LONGEST = 3, 16
"""The lengths of beginnings of words."""
_BEFORE_VERBS = frozenset(("and", "then", "to", "please", "also", "y", "e", "und", "et", "bitte"))
"""Words before which a noun of a request is a verb: "and mail it"."""
_DERIVED = 5
"""The smallest length of a beginning that is made from a participle. Shorter ones fit too many words: "mark", market."""

_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\w+|[,;:()—–]")
_SIGNS = ".,;:!?()[]*_'’\"-–—…/"
_QUOTED = re.compile(
    r'```.*?```|`[^`\n]*`|"[^"\n]*"|“[^“”\n]*”|„[^„“”\n]*[“”]|«[^«»\n]*»|^[ \t]*>[^\n]*', re.MULTILINE | re.DOTALL
)
_QUOTE_SIGN = re.compile('[`"“„«>]')
_GIVEN = re.compile(
    r"\b(?:this|these|following|estos?|estas?|dies\w*|folgende\w*|ces?|cette|quest[aeio]|ist[ao]|seguinte)\b[^:\n]{0,40}:",
    re.IGNORECASE,
)
"""The place of a request where a text is given: "shorten this paragraph: ..."."""
_YEAR = re.compile(r"(?:1[0-9]|20)\d\d")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PLAIN = str.maketrans("áàâãäéèêëíìîïóòôõöúùûüçñ", "aaaaaeeeeiiiiooooouuuucn")

Voice = Literal["speaker", "passive", "bare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A sentence of an answer which says that something was done, before it is compared with the calls."""

    claim: Claim
    voice: Voice
    """`speaker`: the assistant did it. `passive`: it was done. `bare`: "Done.", "Deleted.", "Done: client deleted"."""
    edits_words: bool = False
    """True if its verb is also said of texts: "I've removed the second paragraph"."""
    edits: bool = False
    """True if it may be about a text in the answer itself."""
    names_text: bool = False
    """True if it names such a text."""
    in_text: bool = False
    """True if the answer is long enough to be a text that the request asked for, such as a letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A successful call of this run, or of an earlier turn of the conversation."""

    tool: str
    """Empty: a call that could have done anything."""
    description: str = ""
    read_only: bool | None = None
    """None: unspecified; then the tool's name decides."""
    arguments: str = ""
    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What an answer is compared with."""

    calls: Sequence[PastCall] = ()
    asked: str = ""
    """The request, with what it confirms."""
    tried: bool = False
    """True if a call failed or was refused: then something was asked for, whatever the words of the request."""
    earlier: Sequence[str] = ()
    """Earlier answers of a conversation from which the calls were left out. What they said is not judged again."""


def unsupported_claims(text: str, evidence: Evidence) -> tuple[Claim, ...]:
    """Returns the claims of an answer that the evidence does not support."""
    return unsupported(claims_of(text), evidence)


def claims_of(text: str) -> tuple[Statement, ...]:
    """Returns what an answer says was done. Questions, negations, conditions, offers, quotations and code are left out."""
    words = _words()
    if len(text) > 2 * _TEXT:
        text = f"{text[:_TEXT]}\n{text[-_TEXT:]}"
    triggers = words.triggers.intersection(_split(text.lower()))
    if not triggers:
        return ()
    in_text, has_code = len(text) > _LONG or "\n" in text.strip(), "```" in text
    found: list[Statement] = []
    for sentence in _sentences(text):
        lowered = sentence.lower()
        for trigger in triggers:
            if trigger in lowered:
                found += _statements(sentence, lowered.strip(), words, in_text=in_text, has_code=has_code)
                break
        if len(found) >= _MOST_CLAIMS:
            break
    return tuple(found[:_MOST_CLAIMS])


def unsupported(statements: Sequence[Statement], evidence: Evidence) -> tuple[Claim, ...]:
    """Returns the claims of these statements that no call supports, in order and without repetitions."""
    if not statements:
        return ()
    words = _words()
    asked = _WORD.findall(evidence.asked[:_EVIDENCE].lower())
    writes = not words.writing.isdisjoint(asked)
    of_text = not words.texts.isdisjoint(asked)
    is_given = _GIVEN.search(evidence.asked[:_EVIDENCE]) is not None
    rewords = not words.rewording.isdisjoint(asked)
    wanted = _asked_for(asked, words)
    support = _Support(evidence.calls, words)
    before = {each.claim.action for answer in evidence.earlier for each in claims_of(answer)}
    claims: dict[Claim, None] = {}
    for statement in statements:
        action = statement.claim.action
        if action == "any" and any(other.claim.action != "any" for other in statements):
            continue  # "Done! I've removed it." is one claim
        about_text = (
            rewords
            or (writes and statement.in_text)
            or (statement.edits and (of_text or statement.names_text))
            or (statement.edits_words and is_given)
        )
        if about_text or action in before or (action == "run" and evidence.calls):
            continue
        if statement.voice != "speaker":
            is_wanted = evidence.tried or (action == "any" and wanted) or _is_near(action, wanted, words)
            if not is_wanted or support.is_reported(action):
                continue
        elif statement.edits_words and not (wanted or evidence.tried):
            continue
        if not support.has(action):
            claims[statement.claim] = None
    return tuple(claims)


def _is_near(action: Action, wanted: frozenset[Action], words: _Words) -> bool:
    """Returns True if one of these classes, or a class that can stand for it, is wanted."""
    if action == "any":
        return False
    return (
        action in wanted or not wanted.isdisjoint(words.also[action]) or any(action in words.also[of] for of in wanted)
    )


def is_confirmation(request: str) -> bool:
    """Returns True if a request is so short that it probably confirms what was said before it: "yes, do it"."""
    return len(_WORD.findall(request[:_SENTENCE])) <= _words().confirmations


# --- the words ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """`claims.toml`, prepared for look-ups."""

    forms: Mapping[str, tuple[tuple[Action, str], ...]]
    """A word that says something was done -> its classes and languages; `es_i` is a form that has its speaker in it."""
    stems: Mapping[str, frozenset[Action]]
    """Beginning of a word -> its classes; `asks` and `nouns` too."""
    asks: Mapping[str, frozenset[Action]]
    nouns: Mapping[str, frozenset[Action]]
    whole: Mapping[str, frozenset[Action]]
    """Word -> its classes."""
    also: Mapping[Action, frozenset[Action]]
    triggers: frozenset[str]
    """Words without which a text has no claim."""
    done: frozenset[str]
    fillers: frozenset[str]
    general: frozenset[str]
    reading: frozenset[str]
    strong: Mapping[str, frozenset[str]]
    weak: Mapping[str, frozenset[str]]
    adverbs: frozenset[str]
    now: frozenset[str]
    already: frozenset[str]
    neutral: frozenset[str]
    rewording: frozenset[str]
    verbs: frozenset[str]
    """Auxiliary verbs of all languages."""
    conjunctions: frozenset[str]
    but: frozenset[str]
    hedges: Mapping[str, frozenset[str]]
    """Language -> words that make a statement no statement, such as negations."""
    reported: frozenset[str]
    past: frozenset[str]
    by: frozenset[str]
    that: frozenset[str]
    nothing: frozenset[str]
    acting: frozenset[str]
    refusals: frozenset[str]
    relative: frozenset[str]
    before: frozenset[str]
    itself: frozenset[str]
    polite: frozenset[str]
    start: frozenset[str]
    questions: frozenset[str]
    texts: frozenset[str]
    writing: frozenset[str]
    edits: Mapping[str, frozenset[Action]]
    """Beginnings of verbs that are also said of texts."""
    confirmations: int


@cache
def _words() -> _Words:
    raw = tomllib.loads((files(__package__) / "claims.toml").read_text("utf-8"))
    table = cast("Mapping[Action, Mapping[str, str]]", raw["action"])
    forms: dict[str, list[tuple[Action, str]]] = {}
    for action, row in table.items():
        for language in _LANGUAGES:
            for word in row.get(language, "").split():
                for form in _inflected(word, language):
                    forms.setdefault(form, []).append((action, language))
    words, done = raw["words"], _set(raw["done"]["words"])
    return _Words(
        forms={form: tuple(of) for form, of in forms.items()},
        stems=_by_word({action: _set(row["stems"]) | _derived(row) for action, row in table.items()}),
        asks=_by_word({action: _set(row.get("asks", "")) for action, row in table.items()}),
        nouns=_by_word({action: _set(row["nouns"]) for action, row in table.items()}),
        whole=_by_word({action: _set(row["words"]) for action, row in table.items()}),
        also={action: frozenset(cast("Iterable[Action]", row["also"])) for action, row in table.items()},
        triggers=frozenset((*forms, *done)),
        done=done,
        fillers=_set(raw["done"]["fillers"]),
        general=_set(raw["tools"]["general"]),
        reading=_set(raw["tools"]["reading"]),
        strong={language: _set(of) for language, of in raw["strong"].items()},
        weak={language: _set(of) for language, of in raw["weak"].items()},
        adverbs=_set(words["adverbs"]),
        now=_set(words["now"]),
        already=_set(words["already"]),
        neutral=_set(words["neutral"]),
        rewording=_set(words["rewording"]),
        verbs=frozenset().union(*map(_set, raw["weak"].values()), *map(_set, raw["strong"].values())),
        conjunctions=_set(words["and"]),
        but=_set(words["but"]),
        hedges={
            language: _set(words["hedges"]) - _set(raw["unhedged"].get(language[:2], "")) for language in _LANGUAGES
        },
        reported=_set(words["reported"]),
        past=_set(words["past"]),
        by=_set(words["by"]),
        that=_set(words["that"]),
        nothing=_set(words["nothing"]),
        acting=_set(raw["tools"]["acting"]),
        refusals=_set(words["refusals"]),
        relative=_set(words["relative"]),
        before=_set(words["before"]),
        itself=_set(words["self"]),
        polite=_set(words["polite"]),
        start=_set(words["start"]),
        questions=_set(words["questions"]),
        texts=_set(words["texts"]),
        writing=_set(words["writing"]),
        edits=_by_word({"change": _set(words["edits"])}),
        confirmations=words["confirmations"],
    )


def _by_word(table: Mapping[Action, frozenset[str]]) -> Mapping[str, frozenset[Action]]:
    """Returns the classes of each word."""
    words = frozenset[str]().union(*table.values())
    return {word: frozenset(action for action, of in table.items() if word in of) for word in words}


def _derived(row: Mapping[str, str]) -> frozenset[str]:
    """Returns beginnings of words that the participles of a class have in common with the other forms of their verbs."""
    stems = (
        ending.sub("", word).translate(_PLAIN)
        for language, ending in _ENDINGS.items()
        for word in row.get(language, "").split()
        if ending.search(word)
    )
    return frozenset(stem for stem in stems if len(stem) >= _DERIVED)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _inflected(word: str, language: str) -> tuple[str, ...]:
    """Returns a participle with its endings for gender and number."""
    if language in ("es", "pt") and word.endswith("o"):
        return tuple(word[:-1] + ending for ending in ("o", "a", "os", "as"))
    if language == "it" and word.endswith("o"):
        return tuple(word[:-1] + ending for ending in ("o", "a", "i", "e"))
    if language == "fr":
        return tuple(word + ending for ending in ("", "e", "s", "es"))
    return (word,)


def _split(text: str) -> list[str]:
    """Returns the words of a text. Replacing and splitting takes half as long as a regular expression."""
    for sign in _SIGNS:
        text = text.replace(sign, " ")
    return text.split()


def _sentences(text: str) -> list[str]:
    """Returns the sentences of a text, without quotations and code."""
    if _QUOTE_SIGN.search(text):
        text = _QUOTED.sub("…", text)
    for end in ". ", "! ", "? ", "… ":
        text = text.replace(end, f"{end}\n")
    return text.split("\n")


def _statements(sentence: str, lowered: str, words: _Words, *, in_text: bool, has_code: bool) -> Iterable[Statement]:
    """Returns what a sentence says was done."""
    if lowered.endswith("?") or lowered.startswith("¿"):
        return
    tokens = _TOKEN.findall(lowered)
    if len(tokens) > _MOST_TOKENS:
        return
    shown = " ".join(sentence.split())[:_SENTENCE]
    opens = in_text or lowered.endswith(":")
    names_text = has_code or lowered.endswith(":") or not words.texts.isdisjoint(tokens)
    of_itself = not words.itself.isdisjoint(tokens)
    for action, (voice, form) in _Reading(tokens, words, in_text=in_text).statements().items():
        edits = action == "any" or any(_beginning(form, words.edits))
        if edits and of_itself:
            continue
        claim = Claim(text=shown, action=action)
        yield Statement(
            claim=claim, voice=voice, edits_words=edits, edits=edits and opens, names_text=names_text, in_text=in_text
        )


# --- one sentence ---------------------------------------------------------------------------------------------------------


class _Reading:
    """Reads one sentence, a list of lowercase words and separators."""

    def __init__(self, tokens: Sequence[str], words: _Words, *, in_text: bool) -> None:
        self._tokens = tokens
        self._in_text = in_text
        self._words = words
        self._said_by_speaker = False
        """True after a verb whose speaker is the assistant: "I created it *and sent* it"."""
        self._opening = self._after_opening()
        """Index of the first token after "Done:" or the like; 0: the sentence does not begin so."""

    def statements(self) -> Mapping[Action, tuple[Voice, str]]:
        """Returns the classes of what the sentence says was done, each with the voice and the word of its first mention."""
        found: dict[Action, tuple[Voice, str]] = {}
        forms = self._words.forms
        for index, token in enumerate(self._tokens):
            if token in forms:
                for action, language in forms[token]:
                    voice = self._voice(index, language)
                    if voice == "speaker":
                        self._said_by_speaker = True
                    if voice is not None:
                        found.setdefault(action, (voice, token))
        if not found and self._opening and self._opening >= len(self._tokens):
            return {"any": ("bare", "")}
        return found

    def _voice(self, index: int, language: str) -> Voice | None:
        """Returns who says the word at `index`; None: the sentence does not say that it was done."""
        tokens, words = self._tokens, self._words
        begin = self._clause(index)
        clause = tokens[begin:index]
        if not words.hedges[language].isdisjoint(clause) or self._is_followed(index, words.that):
            return None
        if not words.nothing.isdisjoint(tokens[index + 1 : index + 4]):
            return None
        if self._is_speaker(index, begin, language):
            return "speaker"
        if tokens[index] in words.refusals or not words.relative.isdisjoint(clause):
            return None
        if language.endswith("_i") or not words.reported.isdisjoint(tokens) or self._is_followed(index, words.by):
            return None
        if self._is_passive(index, begin, language):
            return "passive"
        return "bare" if self._is_bare(index) else None

    def _clause(self, index: int) -> int:
        """Returns the index at which the clause of a word begins."""
        for place in range(index - 1, -1, -1):
            token = self._tokens[place]
            if (not token[0].isalnum()) or token in self._words.but:
                return place + 1
        return 0

    def _is_followed(self, index: int, by: frozenset[str]) -> bool:
        return not by.isdisjoint(self._tokens[index + 1 : index + 2])

    def _before(self, index: int, begin: int) -> tuple[int, bool]:
        """Returns the index of the last token before `index` that is no adverb (`begin` - 1: there is none), and whether there is
        an adverb such as "now" in between."""
        has_now, place = False, index - 1
        while place >= begin and (self._tokens[place] in self._words.adverbs or self._tokens[place].endswith("ly")):
            has_now = has_now or self._tokens[place] in self._words.now
            place -= 1
        return place, has_now

    def _is_speaker(self, index: int, begin: int, language: str) -> bool:
        tokens, words = self._tokens, self._words
        if not words.before.isdisjoint(tokens) or (tokens[index] == "ordered" and "by" in tokens[index:]):
            return False
        if language.endswith("_i"):
            return True
        place, _ = self._before(index, begin)
        previous = tokens[place] if place >= 0 else ""
        speakers = words.strong.get(language, frozenset())
        if place >= begin and previous in speakers and language != "de":
            return previous != "we" or place < index - 1  # "we updated our terms" tells of other times
        joined = previous in words.conjunctions or not previous[:1].isalnum()
        if joined and place >= 0 and (self._said_by_speaker or tokens[place - 1 : place] == ["ahead"]):
            return True
        if language != "de":
            return False
        return any(
            tokens[at] in speakers and not {"ich", "wir"}.isdisjoint(tokens[max(0, at - 1) : at + 3])
            for at in range(max(0, index - _REACH), index)
        )

    def _is_passive(self, index: int, begin: int, language: str) -> bool:
        tokens, words = self._tokens, self._words
        if not words.already.isdisjoint(tokens):
            return False
        is_past = not words.past.isdisjoint(tokens) or any(map(_YEAR.fullmatch, tokens))
        place, has_now = self._before(index, begin)
        auxiliaries = {tokens[at] for at in (index - 1, place) if at >= begin}
        if language == "de":
            auxiliaries = {*tokens[max(begin, index - _REACH) : index], *tokens[index + 1 : index + 3]}
            has_now = not words.now.isdisjoint(tokens)
            if not {"ich", "wir"}.isdisjoint(auxiliaries):
                return False
        if language == "es" and auxiliaries & {"ha", "han"} and "se" in tokens[begin:index]:
            return True
        weak, nothing = words.weak, frozenset[str]()
        if not weak.get(language, nothing).isdisjoint(auxiliaries):
            return not (is_past and language in ("fr", "it", "de"))  # their perfect tense also tells of other times
        if has_now and not weak.get(f"{language}_now", nothing).isdisjoint(auxiliaries):
            return True
        return not is_past and not weak.get(f"{language}_past", nothing).isdisjoint(auxiliaries)

    def _is_bare(self, index: int) -> bool:
        tokens, words = self._tokens, self._words
        if self._opening:
            return index >= self._opening
        is_short = not self._in_text and len(tokens) <= _SHORT and all(token[0].isalnum() for token in tokens)
        if is_short and set(tokens[index + 1 :]) <= words.adverbs and words.verbs.isdisjoint(tokens):
            return True
        if any(token[0].isalnum() and token not in words.adverbs | words.fillers for token in tokens[:index]):
            return False
        return index + 1 == len(tokens) or tokens[index + 1] in words.start or not tokens[index + 1][0].isalpha()

    def _after_opening(self) -> int:
        """Returns the index behind "Done", "All done:", "Listo," or the like; 0: the sentence does not begin so."""
        place, is_done = 0, False
        for token in self._tokens:
            if token in self._words.done:
                is_done = True
            elif token not in self._words.fillers and (token[0].isalnum() or not place):
                break
            place += 1
        return place if is_done and (place == len(self._tokens) or not self._tokens[place - 1][0].isalnum()) else 0


# --- the calls ------------------------------------------------------------------------------------------------------------


class _Support:
    """What the successful calls support. The texts of a call are read once, when a claim first needs them."""

    def __init__(self, calls: Sequence[PastCall], words: _Words) -> None:
        self._words = words
        self._calls = calls
        self._acting = [place for place, call in enumerate(calls) if not _only_reads(call, words)]
        self._mentioned: dict[int, frozenset[Action]] = {}

    def has(self, action: Action) -> bool:
        """Returns True if a call could have done such an action."""
        if action == "any" or not self._acting:
            return bool(self._acting)
        able = self._able
        if "any" in able or action in able or not able.isdisjoint(self._words.also[action]):
            return True
        return any(action in self._mentions(place) for place in self._acting)

    @cached_property
    def _able(self) -> frozenset[Action]:
        """The classes of actions that the called tools may do."""
        return frozenset[Action]().union(*(_classes(self._calls[place], self._words) for place in self._acting))

    def is_reported(self, action: Action) -> bool:
        """Returns True if a call, also one that only reads, returned a text that says the same."""
        return any(action in self._mentions(place) for place in range(len(self._calls)))

    def _mentions(self, place: int) -> frozenset[Action]:
        if place not in self._mentioned:
            self._mentioned[place] = _mentioned(self._calls[place], self._words)
        return self._mentioned[place]


def _asked_for(tokens: Sequence[str], words: _Words) -> frozenset[Action]:
    """Returns the classes of actions that a request asks for by a verb. None: it begins like a question for facts, or it has such
    verbs only in forms that say it was done ("was it deleted")."""
    start = next((place for place, token in enumerate(tokens) if token not in words.polite), 0)
    if not words.questions.isdisjoint((*tokens[start : start + 1], "_".join(tokens[start : start + 2]))):
        return frozenset()
    found: set[Action] = set()
    before = ""
    for place, token in enumerate(tokens):
        if token not in words.forms:
            found.update(_beginning(token, words.stems), _beginning(token, words.asks))
            if place == start or before in words.conjunctions or before in _BEFORE_VERBS:
                found.update(words.whole.get(token, ()))
        before = token
    return frozenset(found)


def _beginning(word: str, beginnings: Mapping[str, frozenset[Action]]) -> Iterable[Action]:
    """Returns the classes whose beginnings a word has. Without accents, because tools are often named without them."""
    if not word.isascii():
        word = word.translate(_PLAIN)
    found: list[Action] = []
    for length in range(_SHORTEST, min(len(word), _LONGEST) + 1):
        if (actions := beginnings.get(word[:length])) is not None:
            found += actions
    return found


def _only_reads(call: PastCall, words: _Words) -> bool:
    if call.read_only is not None or not call.tool:
        return bool(call.read_only)
    name = _name_words(call.tool)
    return bool(name) and name[0] in words.reading and words.acting.isdisjoint(name)


def _name_words(name: str) -> list[str]:
    return [part for part in re.split(r"[\W_]+", _CAMEL.sub(" ", name).lower()) if part]


def _classes(call: PastCall, words: _Words) -> frozenset[Action]:
    """Returns the classes of actions that a tool may do; `any`: its words do not tell."""
    name = _name_words(call.tool)
    if not words.general.isdisjoint(name):
        return frozenset(("any",))
    described = _WORD.findall(call.description[:_DESCRIPTION].lower())
    found: set[Action] = set()
    for word in (*name, *described):
        found.update(_beginning(word, words.stems), words.whole.get(word, ()))
    for word in name:
        found.update(_beginning(word, words.nouns))
    return frozenset(found or ("any",))


def _mentioned(call: PastCall, words: _Words) -> frozenset[Action]:
    """Returns the classes of actions of which the arguments or the result of a call have a word."""
    text = f"{call.arguments[:_EVIDENCE]} {call.result[:_EVIDENCE]}".lower().replace("_", " ")
    found: set[Action] = set()
    for token in set(_WORD.findall(text)) - words.neutral:
        found.update(action for action, _ in words.forms.get(token, ()))
        found.update(_beginning(token, words.stems))
    return frozenset(found)
