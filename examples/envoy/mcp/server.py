import sys

import uvicorn
from mcp.server import MCPServer

server = MCPServer('server')


@server.tool()
def search(text: str = '') -> str:
    return 'found ' + text


@server.tool()
def weather(place: str = '') -> str:
    return 'sunny'


app = server.streamable_http_app(stateless_http=True, json_response=True)
uvicorn.run(app, host='127.0.0.1', port=int(sys.argv[1]), log_level='error')
