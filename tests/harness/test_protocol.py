"""Messages are objects of bounded size, whatever the other side sends."""

import contextlib
import socket
import threading

import pytest

from benchmarks.harness import protocol
from benchmarks.harness.protocol import Link, ProtocolError, make_links


@pytest.fixture
def ends():  # type: ignore[no-untyped-def]
    ours, theirs = make_links()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_a_message_arrives_as_it_was_sent(ends: tuple[Link, socket.socket]) -> None:
    ours, theirs = ends
    Link(theirs).send(kind="hello", numbers=[1, 2.5, None])
    assert ours.receive(1) == {"kind": "hello", "numbers": [1, 2.5, None]}


def test_a_message_longer_than_a_packet_arrives_whole(ends: tuple[Link, socket.socket]) -> None:
    ours, theirs = ends
    said = {"arguments": [f"a tensor of state {number}" for number in range(30_000)]}
    sender = threading.Thread(target=lambda: Link(theirs).send(**said))
    sender.start()
    assert ours.receive(10) == said
    sender.join()


def test_a_message_without_end_is_an_error(ends: tuple[Link, socket.socket]) -> None:
    ours, theirs = ends

    def talk() -> None:
        with contextlib.suppress(OSError):
            while True:
                theirs.send(b"+" + b" " * ((128 << 10) - 1))

    sender = threading.Thread(target=talk)
    sender.start()
    with pytest.raises(ProtocolError, match="too long"):
        ours.receive(10)
    ours.close()
    sender.join()


@pytest.mark.parametrize(
    "data", [b"+" * 100, b"\x80\x04garbage", b"[1, 2]", b"{", b"[" * 90_000, b'{"a": ' + b"[" * 60 + b"]" * 60 + b"}"]
)
def test_nonsense_is_an_error_and_never_more(ends: tuple[Link, socket.socket], data: bytes) -> None:
    ours, theirs = ends
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    theirs.send(data)
    with pytest.raises(ProtocolError):
        ours.receive(1)


def test_silence_and_absence_differ(ends: tuple[Link, socket.socket]) -> None:
    ours, theirs = ends
    with pytest.raises(TimeoutError):
        ours.receive(0.01)
    theirs.close()
    with pytest.raises(ProtocolError):
        ours.receive(1)


def test_whoever_does_not_read_loses_messages_and_is_as_good_as_gone(
    ends: tuple[Link, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission that fills its channel was an error of the judge: a send took the time limit of the last receive."""
    monkeypatch.setattr(protocol, "_SEND_S", 0.05)
    ours, theirs = ends
    theirs.send(b"{}")
    assert ours.receive(0.01) == {}
    for _ in range(20):
        ours.send(text="x" * 100_000)
    theirs.send(b"{}")
    with pytest.raises(ProtocolError, match="does not read"):
        ours.receive(0.01)


def test_a_message_has_time_to_be_read_however_short_the_last_wait_was(ends: tuple[Link, socket.socket]) -> None:
    ours, theirs = ends
    with pytest.raises(TimeoutError):
        ours.receive(0.001)
    sender = threading.Thread(target=lambda: ours.send(text="x" * 2_000_000))
    sender.start()
    sender.join(0.1)
    assert Link(theirs).receive(10) == {"text": "x" * 2_000_000}
    sender.join()


def test_no_text_of_a_message_can_break_a_page_or_a_database(ends: tuple[Link, socket.socket]) -> None:
    ours, theirs = ends
    record = "0123456789abcdef+/=" * 5000
    Link(theirs).send(load_error="\ud800 \0 \x1b[31m é\n", exported=[{"\udfff": "\0"}], piece=record)
    expected = {"load_error": "� � �[31m é\n", "exported": [{"�": "�"}], "piece": record}
    assert ours.receive(1) == expected


def test_a_message_to_somebody_who_is_gone_is_lost_and_receiving_says_so() -> None:
    ours, theirs = make_links()
    theirs.close()
    ours.send(word="hello")
    with open("/dev/null", "rb") as file:
        ours.send_descriptors([file.fileno()], word="hello")
    with pytest.raises(ProtocolError):
        ours.receive(1.0)
    ours.close()
