#!/usr/bin/env python3
"""Holds a running server to what its schema promises, with stubs made of nothing but that.

check.py ADDRESS messages              sends, receives, acknowledges, retries, is refused
check.py ADDRESS activity NAME COUNT   does COUNT attempts of an activity of workflows
check.py ADDRESS token FILE            is let in by a token, and not without one
"""

import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the tree stays as it is
PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"


def generate(folder):
    """Makes the modules of strand.v1, as any project would."""
    plugin = subprocess.run(
        ["which", "grpc_python_plugin"], check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run(
        ["protoc", f"--proto_path={PROTO}", f"--python_out={folder}"]
        + [f"--plugin=protoc-gen-grpc_python={plugin}", f"--grpc_python_out={folder}"]
        + ["strand/v1/types.proto", "strand/v1/store.proto"],
        check=True,
    )
    sys.path.insert(0, folder)
    sys.path.insert(0, str(pathlib.Path(__file__).parent))


def expect(condition, what):
    if not condition:
        raise SystemExit(f"check.py: not so: {what}")


def refused(function, code):
    from client import StrandError

    try:
        function()
    except StrandError as error:
        expect(error.code == code, f"{error.code} is {code}")
        return
    expect(False, f"{code} was said")


def check_messages(client):
    from client import headers_of, store, types

    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    send = types.Send(queue="orders")
    send.content.key, send.content.body = b"customer-7", b"charge"
    receipt = client.apply(types.Transaction(sends=[send]), [("traceparent", trace)])
    expect(not receipt.sent[0].duplicate, "the first one is no duplicate")

    lease = client.lease("orders")
    expect(lease.key == b"customer-7", "the lane is that of the key")
    message = lease.messages[0]
    expect((message.id, message.body) == (receipt.sent[0].id, b"charge"), "it is what was sent")
    expect(headers_of(message) == {"traceparent": trace}, "the trace goes with the message")
    expect(message.attempts == 0, "nothing has failed")

    # Fails once, and comes again.
    retry = types.Settle(token=lease.token)
    retry.outcomes.add(id=message.id, kind=types.Outcome.KIND_RETRY, delay_ms=0, reason=b"closed")
    client.apply(types.Transaction(settles=[retry]))
    again = client.lease("orders")
    expect(again.messages[0].attempts == 1, "the attempt was counted")
    expect(again.token != lease.token, "another lease has another token")
    refused(lambda: client.apply(types.Transaction(settles=[retry])), "lease_lost")

    ack = types.Settle(token=again.token, acked=[again.messages[0].id])
    client.apply(types.Transaction(settles=[ack]))
    expect(client.lease("orders", wait_ms=50) is None, "there is nothing left")
    stats = client.call(client.stub.GetStats, store.StatsRequest(queue="orders")).stats
    expect((stats.accepted, stats.acked) == (1, 1), "all of it was acknowledged")

    # Sent twice, done once.
    transaction = types.Transaction(sends=[types.Send(queue="mails")])
    client.apply(transaction)
    request = store.ApplyRequest(transactions=[transaction])
    client.call(client.stub.Apply, request)
    stats = client.call(client.stub.GetStats, store.StatsRequest(queue="mails")).stats
    expect(stats.accepted == 1, "a repeat adds nothing")

    # Errors have names, of a call and of a transaction.
    ask = store.StatsRequest(queue="nowhere")
    refused(lambda: client.call(client.stub.GetStats, ask), "not_found")
    nameless = types.Transaction(sends=[types.Send(queue="")])
    refused(lambda: client.apply(nameless), "invalid_argument")


def do_activity(client, name, count):
    from client import serve_activity

    seen = set()

    def charge(card):
        """Succeeds at the second attempt, unless the card is none."""
        if card == b"none":
            raise ValueError("there is no card")
        if card not in seen:
            seen.add(card)
            raise OSError("the bank is closed")
        return b"charged " + card

    for _ in range(count):
        expect(serve_activity(client, name, charge), "there was something to do")


def check_token(channel, file):
    from client import Client, store

    token = pathlib.Path(file).read_text(encoding="ascii").split()[0]
    known = Client(channel, token)
    expect(known.call(known.stub.Now, store.NowRequest()).now_ms > 0, "the token lets in")
    for wrong in (None, "strand_" + 43 * "A", token[:-1], token + "A"):
        stranger = Client(channel, wrong)
        refused(lambda: stranger.call(stranger.stub.Now, store.NowRequest()), "forbidden")


def main():
    address, what, *rest = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="strand-python-") as folder:
        generate(folder)
        import grpc
        from client import Client

        with grpc.insecure_channel(address) as channel:
            if what == "messages":
                check_messages(Client(channel))
            elif what == "activity":
                do_activity(Client(channel), rest[0], int(rest[1]))
            else:
                check_token(channel, rest[0])
    print("fine")


if __name__ == "__main__":
    main()
