"""Language tags (BCP 47) and English names of the languages of sound and subtitles."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

# For each language: the shortest tag, which BCP 47 requires; the codes of ISO 639-2 and 639-3 that files can
# have instead of this tag; and the English name. The table was generated from the CLDR data of ICU 74.
_TABLE = """
aa aar Afar; ab abk Abkhazian; ae ave Avestan; af afr Afrikaans; ak aka fat twi Akan; am amh Amharic;
an arg Aragonese; ar ara arb Arabic; as asm Assamese; av ava Avaric; ay aym ayr Aymara;
az aze azj Azerbaijani; ba bak Bashkir; be bel Belarusian; bg bul Bulgarian; bi bis Bislama;
bm bam Bambara; bn ben Bangla; bo bod tib Tibetan; br bre Breton; bs bos Bosnian; ca cat Catalan;
ce che Chechen; ch cha Chamorro; co cos Corsican; cr cre cwd Cree; cs ces cze Czech;
cu chu Church Slavic; cv chv Chuvash; cy cym wel Welsh; da dan Danish; de deu ger German;
dv div Divehi; dz adp dzo Dzongkha; ee ewe Ewe; el ell gre Greek; en eng English; eo epo Esperanto;
es spa Spanish; et ekk est Estonian; eu baq eus Basque; fa fas per pes Persian; ff fuc ful Fula;
fi fin Finnish; fj fij Fijian; fo fao Faroese; fr fra fre French; fy fry Western Frisian; ga gle Irish;
gd gla Scottish Gaelic; gl glg Galician; gn grn gug Guarani; gu guj prp Gujarati; gv glv Manx;
ha hau Hausa; he heb Hebrew; hi hin Hindi; ho hmo Hiri Motu; hr hrv scr Croatian;
ht hat Haitian Creole; hu hun Hungarian; hy arm hye Armenian; hz her Herero; ia ina Interlingua;
id ind Indonesian; ie ile Interlingue; ig ibo Igbo; ii iii Sichuan Yi; ik esk ipk Inupiaq; io ido Ido;
is ice isl Icelandic; it ita Italian; iu ike iku Inuktitut; ja jpn Japanese; jv jav jaw Javanese;
ka geo kat Georgian; kg kng kon Kongo; ki kik Kikuyu; kj kua Kuanyama; kk kaz Kazakh;
kl kal Kalaallisut; km khm Khmer; kn kan Kannada; ko kor Korean; kr kau knc Kanuri; ks kas Kashmiri;
ku kmr kur Kurdish; kv kom kpv Komi; kw cor Cornish; ky kir Kyrgyz; la lat Latin; lb ltz Luxembourgish;
lg lug Ganda; li lim Limburgish; ln lin Lingala; lo lao Lao; lt lit Lithuanian; lu lub Luba-Katanga;
lv lav lvs Latvian; mg mlg plt Malagasy; mh mah Marshallese; mi mao mri Māori; mk mac mkd Macedonian;
ml mal Malayalam; mn drh khk mon Mongolian; mr mar Marathi; ms may msa zsm Malay; mt mlt Maltese;
my bur mya Burmese; na nau Nauru; nb nob Norwegian Bokmål; nd nde North Ndebele; ne nep npi Nepali;
ng ndo Ndonga; nl dut nld Dutch; nn nno Norwegian Nynorsk; no nor Norwegian; nr nbl South Ndebele;
nv nav Navajo; ny nya Nyanja; oc oci Occitan; oj ojg oji Ojibwa; om gaz orm Oromo; or ori ory Odia;
os oss Ossetic; pa pan Punjabi; pi pli Pali; pl pol Polish; ps pbu pus Pashto; pt por Portuguese;
qu que quz Quechua; rm roh Romansh; rn run Rundi; ro mol ron rum Romanian; ru rus Russian;
rw kin Kinyarwanda; sa cls san Sanskrit; sc src srd Sardinian; sd snd Sindhi; se sme Northern Sami;
sg sag Sango; si sin Sinhala; sk slk slo Slovak; sl slv Slovenian; sm smo Samoan; sn sna Shona;
so som Somali; sq alb als sqi Albanian; sr scc srp Serbian; ss ssw Swati; st sot Southern Sotho;
su sun Sundanese; sv swe sve Swedish; sw swa swh Swahili; ta tam Tamil; te tel Telugu; tg tgk Tajik;
th tha Thai; ti tir Tigrinya; tk tuk Turkmen; tn tsn Tswana; to ton Tongan; tr tur Turkish;
ts tso Tsonga; tt tat Tatar; tw Akan; ty tah Tahitian; ug uig Uyghur; uk ukr Ukrainian; ur urd Urdu;
uz uzb uzn Uzbek; ve ven Venda; vi vie Vietnamese; vo vol Volapük; wa wln Walloon; wo wol Wolof;
xh xho Xhosa; yi ydd yid Yiddish; yo yor Yoruba; za zha zyb Zhuang; zh chi cmn zho Chinese;
zu zul Zulu; fil Filipino; haw Hawaiian; yue Cantonese; ast Asturian; gsw Swiss German; nds Low German;
mni Manipuri; kok Konkani; mai Maithili; bho Bhojpuri; ckb Central Kurdish; chr Cherokee
"""

_TAG = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}")
_NO_LANGUAGE = ("und", "zxx", "mul", "mis")


def _entries() -> list[tuple[list[str], str]]:
    entries = []
    for row in " ".join(_TABLE.split()).split("; "):
        words = row.split(" ")
        codes = [word for word in words if word.islower()]
        entries.append((codes, " ".join(words[len(codes) :])))
    return entries


_TAGS: Mapping[str, str] = MappingProxyType({code: codes[0] for codes, _ in _entries() for code in codes})
_CODES: Mapping[str, Sequence[str]] = MappingProxyType({codes[0]: codes for codes, _ in _entries()})
# The codes for which ffmpeg 9 has a QuickTime language number. If a language has two codes (`fra` and `fre`,
# `deu` and `ger`), ffmpeg knows only one of the codes, and writes no language for the other code.
_QUICKTIME_CODES = """
amh ara asm aym aze bel bul ben tib cat ces wel dan ger dzo gre eng epo spa est baq per fin fra grn guj
heb hin hun arm ind ice ita jpn jav geo kaz khm kan kor kas kur kir lat lao lit lav mlg mac mal mon mar
may mlt bur nep dut nor nya orm ori pol pus por que run mol ron rus kin san snd sin slk slv som alb sve
swa tam tel tgk tha tir tuk tur tat uig ukr urd uzb vie yid chi
"""
_QUICKTIME = frozenset(_QUICKTIME_CODES.split())
_NAMES: Mapping[str, str] = MappingProxyType({codes[0]: name for codes, name in _entries()})


def language_tag(language: str | None) -> str | None:
    """Return the BCP 47 tag of the language that a file declares, or None if the file declares no language.

    `language` comes from the source and is not trusted. Every returned tag is safe in playlists, in XML and
    in file names.
    """
    if language is None or not _TAG.fullmatch(language):
        return None
    primary, *rest = language.lower().split("-")
    if primary in _NO_LANGUAGE:
        return None
    return "-".join((_TAGS.get(primary, primary), *map(_subtag, rest)))


def code_in_mp4(language: str) -> str:
    """Return the three-letter code for MP4. ffmpeg's muxer drops every other code."""
    primary = language.partition("-")[0]
    return next((code for code in (primary, *_codes(primary)) if len(code) == 3), primary)


def code_in_quicktime(language: str) -> str:
    """Return the language's code in QuickTime's table, or else the code for MP4."""
    code = code_in_mp4(language)
    return next((one for one in (code, *_codes(code)) if one in _QUICKTIME), code)


def _codes(code: str) -> Sequence[str]:
    return _CODES.get(_TAGS.get(code, code), ())


def _subtag(text: str) -> str:
    """Return a subtag as it is usually written: a region in capitals, a script with one capital."""
    if len(text) == 2:
        return text.upper()
    return text.title() if len(text) == 4 and text.isalpha() else text


def language_name(tag: str) -> str:
    """Return the English name of a language, with its further subtags in parentheses: "Portuguese (BR)"."""
    primary, _, rest = tag.partition("-")
    name = _NAMES.get(primary, primary)
    return f"{name} ({rest})" if rest else name


def is_spoken(language: str | None, wanted: str) -> bool:
    """Return whether a language that a file declares matches `wanted`.

    The wanted `de` matches `ger`, and the wanted `pt` matches `pt-BR` too.
    """
    declared, tag = language_tag(language), language_tag(wanted)
    return declared is not None and tag is not None and f"{declared}-".startswith(f"{tag}-")
