import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

usage = {'prompt_tokens': 1001, 'completion_tokens': 2000, 'total_tokens': 3001}


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        ask = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        stream = ask.get('stream')
        part = {'delta' if stream else 'message': {'role': 'assistant', 'content': 'Hello.'}}
        answer = {'model': ask['model'], 'choices': [part]}
        if not stream or (ask.get('stream_options') or {}).get('include_usage'):
            answer['usage'] = usage
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream' if stream else 'application/json')
        self.end_headers()
        frame = 'data: %s\n\ndata: [DONE]\n\n' if stream else '%s\n'
        self.wfile.write((frame % json.dumps(answer)).encode())


ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Model).serve_forever()
