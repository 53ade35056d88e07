"""The server: every installed agent behind HTTP.

    app.py       create_app: the application, its lifespan with a worker, and the list of protocols
    routing.py   a route with what it needs; authentication, limits and errors around its handler
    auth.py      who calls: API keys, JSON web tokens, session cookies
    tokens.py    verifies JSON web tokens, with keys of the settings or those that the issuer publishes
    service.py   turns with a principal: submit, get, find, answer, cancel, wait
    events.py    follows the stored events of turns and sessions; server-sent events
    rest.py      Interlock's own REST API; shapes.py has its JSON, openapi.py its description
    conversation.py   a message of a person and the reply to it, for protocols of chat clients
    openai_api.py     OpenAI's chat completions; responses_api.py its responses; openai_shapes.py what they share
    mcp_api.py        the Model Context Protocol; mcp_tools.py has agents as tools
    guarantees.py  what each agent guarantees, by `interlock verify`
    pages.py     the studio at /, with the files of page/; examples.py has its demo
    metrics.py   /healthz, /readyz, /metrics
    problems.py  errors as application/problem+json; request_errors.py those of requests

A protocol is a module with a function `routes(server)`, and a line in `app.PROTOCOLS`. Its answers are projections of a turn's
stored events, so no protocol knows another. This package needs the extra `interlock[server]`.
"""
