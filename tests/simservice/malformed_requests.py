"""Requests that no well-behaved client sends."""

from tests.web_server import request

JOBS = b"/v1/sim/jobs"
JSON = b"Content-Type: application/json"
CHUNKED = b"Transfer-Encoding: chunked"


NOT_HTTP = {
    "no-line": b"\r\n\r\nx\r\n\r\n",
    "words": b"hello\r\n\r\n",
    "lower-case-method": b"get /v1/sim/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "method-of-odd-characters": b"G@T /v1/sim/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "version-9": b"GET /v1/sim/jobs HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "version-unknown": b"GET /v1/sim/jobs SPDY/1\r\nHost: localhost\r\n\r\n",
    "no-version": b"GET /v1/sim/jobs\r\nHost: localhost\r\n\r\n",
    "space-in-target": request(b"/v1/sim/jo bs"),
    "nul-in-target": request(b"/v1/sim/\x00"),
    "bytes-in-target": request(b"/v1/sim/\xff\xfe"),
    "bare-line-feeds": b"GET /v1/sim/jobs HTTP/1.1\nHost: localhost\n\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n",
    "header-without-colon": request(JOBS, b"Nonsense"),
    "header-without-name": request(JOBS, b": x"),
    "header-name-with-space": request(JOBS, b"X Y: z"),
    "space-before-colon": request(JOBS, b"Authorization : x"),
    "header-name-not-ascii": request(JOBS, b"X-\xc3\xa9: z"),
    "nul-in-header": request(JOBS, b"X-Y: a\x00b"),
    "folded-header": request(JOBS, b"X-Y: a", b" b"),
    "two-hosts": request(JOBS, b"Host: other"),
    "two-content-types": request(JOBS, JSON, JSON, method=b"POST"),
    "length-is-a-word": request(JOBS, b"Content-Length: many", method=b"POST"),
    "length-negative": request(JOBS, b"Content-Length: -1", method=b"POST"),
    "length-superscript": request(JOBS, b"Content-Length: \xb2", method=b"POST"),
    "length-astronomical": request(JOBS, b"Content-Length: " + b"9" * 5000, method=b"POST"),
    "two-lengths": request(JOBS, b"Content-Length: 1", b"Content-Length: 2", method=b"POST"),
    "length-and-chunks": request(JOBS, b"Content-Length: 1", CHUNKED, method=b"POST"),
    "unknown-coding": request(JOBS, b"Transfer-Encoding: magic", method=b"POST"),
    "coding-without-chunks": request(JOBS, b"Transfer-Encoding: gzip", method=b"POST"),
    "chunked-twice": request(JOBS, b"Transfer-Encoding: chunked, chunked", method=b"POST"),
    "chunks-in-http-1.0": b"POST /v1/sim/jobs HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "unknown-expectation": request(JOBS, b"Expect: miracles"),
}


TOO_LARGE = {
    "line": request(b"/" + b"x" * 9000),
    "query": request(JOBS + b"?" + b"a=1&" * 3000),
    "path": request(b"/v1/" + b"x" * 8000),
    "header": request(JOBS, b"X-Y: " + b"x" * 9000),
    "header-name": request(JOBS, b"X" * 9000 + b": y"),
    "headers": request(JOBS, *[b"X-%d: y" % number for number in range(200)]),
}


MEDIA_TYPES = [
    b"text/html",
    b"multipart/form-data; boundary=x",
    b"multipart/form-data",
    b"application/x-www-form-urlencoded",
    b"application/x-www-form-urlencoded; charset=utf-16",
    b"application/jsonx",
    b"application",
    b"/",
    b";;;",
    b"\xff\xfe",
    b"x/" + b"y" * 8000,
    b"application/json; charset=latin-1",
    b"application/json; charset =latin-1",
    b"application/json; charset=base64",
    b"application/json; charset*=nonsense''x",
    b"application/json; charset*=idna''%ff",
]
