"""Decodes pages. Their encoding is said by their first bytes, by the header, or by the page itself, in this order."""

from __future__ import annotations

import codecs
import re

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

# Python has decoders that are no encodings of text, or slow on purpose-made input, so a page may not name just any decoder.
_CODECS = {
    **dict.fromkeys(("utf-8", "utf8", "unicode-1-1-utf-8"), "utf-8"),
    **dict.fromkeys(("utf-16", "utf-16le", "ucs-2", "unicode"), "utf-16-le"),
    "utf-16be": "utf-16-be",
    **dict.fromkeys(
        ("iso-8859-1", "iso8859-1", "latin1", "l1", "ascii", "us-ascii", "windows-1252", "cp1252"), "cp1252"
    ),
    **{f"iso-8859-{number}": f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    "iso-8859-9": "cp1254",
    "latin2": "iso8859-2",
    "latin9": "iso8859-15",
    **{f"windows-{number}": f"cp{number}" for number in (1250, 1251, 1253, 1254, 1255, 1256, 1257, 1258, 874)},
    **{f"cp{number}": f"cp{number}" for number in (866, 1250, 1251)},
    "ibm866": "cp866",
    "tis-620": "cp874",
    **dict.fromkeys(("koi8-r", "koi8-u", "koi8"), "koi8-u"),
    **dict.fromkeys(("macintosh", "mac"), "mac-roman"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j", "ms932"), "cp932"),
    "euc-jp": "euc-jp",
    "iso-2022-jp": "iso2022-jp",
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "korean", "windows-949"), "cp949"),
    **dict.fromkeys(("gbk", "gb2312", "gb18030", "x-gbk", "chinese", "gb_2312-80"), "gb18030"),
    **dict.fromkeys(("big5", "big5-hkscs", "x-x-big5"), "big5hkscs"),
}
"""The decoders of the names that pages use."""

_IN_HEADER = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_IN_PAGE = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_IN_XML = re.compile(rb"\A\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)
_LOOKED_THROUGH = 4096
"""The bytes of a page in which its encoding is looked for."""


def decoded(body: bytes, content_type: str) -> str:
    """Returns the text of a page. Bytes that are not in its encoding become U+FFFD.

    `content_type`: the header Content-Type.
    """
    for bom, codec in _BOMS:
        if body.startswith(bom):
            return body[len(bom) :].decode(codec, "replace")
    return body.decode(_codec(body, content_type), "replace")


def _codec(body: bytes, content_type: str) -> str:
    header = _IN_HEADER.search(content_type)
    if header is not None and header[1].lower() in _CODECS:
        return _CODECS[header[1].lower()]
    start = body[:_LOOKED_THROUGH]
    named = _IN_PAGE.search(start) or _IN_XML.search(start)
    codec = _CODECS.get(named[1].decode("latin-1").lower(), "") if named else ""
    if codec and not codec.startswith("utf-16"):  # a page whose first bytes are ASCII is not UTF-16
        return codec
    try:
        body.decode()
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"
