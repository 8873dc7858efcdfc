from euterpe.analytics.report.html import Html, join, tag, text


def test_text_is_escaped_and_elements_are_not() -> None:
    assert tag("p", "<script>", tag("b", "&")) == "<p>&lt;script&gt;<b>&amp;</b></p>"


def test_attribute_values_are_escaped() -> None:
    assert tag("a", "x", href='"><script>') == '<a href="&quot;&gt;&lt;script&gt;">x</a>'


def test_control_and_bidi_characters_are_replaced() -> None:
    assert text("a\u202eb\x00c\nd") == "a\ufffdb\ufffdc\ufffdd"


def test_attributes_may_be_python_keywords_and_none_is_left_out() -> None:
    assert tag("i", class_="key", aria_label="k", title=None) == '<i class="key" aria-label="k"></i>'
    assert tag("meta", http_equiv="refresh") == '<meta http-equiv="refresh"/>'


def test_coordinates_are_short() -> None:
    assert tag("rect", x=1.0, y=2 / 3) == '<rect x="1" y="0.7"></rect>'


def test_join_returns_markup() -> None:
    assert isinstance(join("<", tag("br")), Html)
    assert join("<", tag("br")) == "&lt;<br/>"
