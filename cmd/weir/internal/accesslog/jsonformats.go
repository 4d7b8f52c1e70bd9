package accesslog

import (
	"strings"
	"time"
)

// layout maps the fields of a server's JSON logs. Of several paths, the first one present counts.
// A field of an object has a path such as request.uri; a name with dots is found, too.
type layout struct {
	name, says                                       string
	date, time, address, method, target, query, line []string
	host, status, bytes, lasted                      []string
	unit                                             time.Duration // of lasted; 0: not in the log
	atEnd                                            bool          // stamps are ends if lasted is known
	header                                           func(canonical string) string

	// needs are fields that each line about a request has, besides its method and target. Other
	// lines are messages.
	needs []string

	// message is a field whose text ends so in lines about requests, if they have it.
	message, ending string
}

// lower returns a function that puts the lower case of a name behind a path.
func lower(path string) func(string) string {
	return func(name string) string { return path + strings.ToLower(name) }
}

// jsonLayouts are the rows of JSON formats. A further one is a row here, a sample of its lines in
// the tests, and a row of the guide.
var jsonLayouts = []layout{
	caddyLayout,
	{
		name: "traefik",
		time: []string{"StartUTC", "StartLocal"}, address: []string{"ClientHost", "ClientAddr"},
		method: []string{"RequestMethod"}, target: []string{"RequestPath"},
		host:   []string{"RequestHost", "RequestAddr"},
		status: []string{"DownstreamStatus", "OriginStatus"},
		bytes:  []string{"DownstreamContentSize"},
		lasted: []string{"Duration"}, unit: time.Nanosecond,
		header: func(name string) string { return "request_" + name },
	},
	{
		name: "tomcat", needs: []string{"statusCode", "logicalUserName"},
		time: []string{"time"}, address: []string{"remoteAddr", "host"}, // host: %h, the client
		method: []string{"method"}, target: []string{"path"}, query: []string{"query"},
		line: []string{"request"}, host: []string{"localServerName"},
		status: []string{"statusCode"}, bytes: []string{"size", "byteSentNC"},
		// its unit depends on the release: Tomcat 10.1 writes microseconds
		lasted: []string{"elapsedTime"}, atEnd: true,
		header: func(name string) string { return "requestHeaders." + name },
	},
	{
		name: "echo", needs: []string{"latency_human"},
		says: "echo logs RealIP, which is what the client wrote into X-Forwarded-For unless the " +
			"program sets IPExtractor: then a client counts as any address that it names.",
		time: []string{"time"}, address: []string{"remote_ip"}, method: []string{"method"},
		target: []string{"uri"}, host: []string{"host"}, status: []string{"status"},
		bytes: []string{"bytes_out"}, lasted: []string{"latency"}, unit: time.Nanosecond,
		atEnd: true,
	},
	{
		name: "fastify", needs: []string{"reqId"}, message: "msg", ending: "incoming request",
		time: []string{"time"}, address: []string{"req.remoteAddress"},
		method: []string{"req.method"}, target: []string{"req.url"},
		host: []string{"req.host", "req.hostname"}, header: lower("req.headers."),
	},
	{
		name: "pino", needs: []string{"responseTime"}, // pino-http
		time: []string{"time"}, address: []string{"req.remoteAddress"},
		method: []string{"req.method"}, target: []string{"req.url"},
		host: []string{"req.headers.host"}, status: []string{"res.statusCode"},
		bytes:  []string{"res.headers.content-length"},
		lasted: []string{"responseTime"}, unit: time.Millisecond, atEnd: true,
		header: lower("req.headers."),
	},
	{
		name: "envoy-json", needs: []string{"response_code", "response_flags"}, // Envoy Gateway, Istio
		time:    []string{"start_time"},
		address: []string{"downstream_remote_address", "x-forwarded-for", "x_forwarded_for"},
		method:  []string{"method"}, target: []string{"x-envoy-origin-path", "path"},
		host: []string{":authority", "authority"}, status: []string{"response_code"},
		bytes: []string{"bytes_sent"}, lasted: []string{"duration"}, unit: time.Millisecond,
		header: lower(""),
	},
	{
		name: "cloudflare", // Logpush
		time: []string{"EdgeStartTimestamp"}, address: []string{"ClientIP"},
		method: []string{"ClientRequestMethod"}, target: []string{"ClientRequestURI"},
		host: []string{"ClientRequestHost"}, status: []string{"EdgeResponseStatus"},
		bytes: []string{"EdgeResponseBytes"},
		header: func(name string) string {
			switch name {
			case "User-Agent", "Referer":
				return "ClientRequest" + strings.ReplaceAll(name, "-", "")
			}
			return "RequestHeaders." + strings.ToLower(name)
		},
	},
	{
		name: "cloudfront-json", needs: []string{"x-edge-location"},
		date: []string{"date"}, time: []string{"time"}, address: []string{"c-ip"},
		method: []string{"cs-method"}, target: []string{"cs-uri-stem"},
		query: []string{"cs-uri-query"}, host: []string{"x-host-header", "cs(Host)"},
		status: []string{"sc-status"}, bytes: []string{"sc-bytes"},
		lasted: []string{"time-taken"}, unit: time.Second, atEnd: true,
		header: func(name string) string { return "cs(" + name + ")" },
	},
	{
		name: "gcp", // balancers, Cloud Run, and httplog of chi
		time: []string{"timestamp"}, address: []string{"httpRequest.remoteIp"},
		method: []string{"httpRequest.requestMethod"}, target: []string{"httpRequest.requestUrl"},
		status: []string{"httpRequest.status"}, bytes: []string{"httpRequest.responseSize"},
		lasted: []string{"httpRequest.latency"},
		header: func(name string) string {
			switch name {
			case "User-Agent":
				return "httpRequest.userAgent"
			case "Referer":
				return "httpRequest.referer"
			}
			return ""
		},
	},
	{
		name:    "ecs", // the Elastic Common Schema, such as by httplog of chi
		time:    []string{"@timestamp"},
		address: []string{"client.ip", "client.address", "source.ip", "source.address"},
		method:  []string{"http.request.method"},
		target:  []string{"url.original", "url.full", "url.path"},
		host:    []string{"url.domain"}, status: []string{"http.response.status_code"},
		bytes:  []string{"http.response.body.bytes", "http.response.bytes"},
		lasted: []string{"event.duration"}, unit: time.Nanosecond, atEnd: true,
		header: otherHeaders,
	},
	{
		name: "otel", // the conventions of OpenTelemetry, such as by httplog of chi
		time: []string{"timestamp"}, address: []string{"client.address"},
		method: []string{"http.request.method"}, target: []string{"url.full", "url.path"},
		query: []string{"url.query"}, host: []string{"server.address"},
		status: []string{"http.response.status_code"}, bytes: []string{"http.response.body.size"},
		lasted: []string{"http.server.request.duration"}, unit: time.Second, atEnd: true,
		header: otherHeaders,
	},
	{
		name: "nginx-json",
		time: []string{
			"msec", "time_msec", "time_iso8601", "time_local", "time", "timestamp", "@timestamp",
			"ts",
		},
		address: []string{
			"remote_addr", "remote_ip", "client_ip", "clientip", "client", "ip", "address",
		},
		method: []string{"request_method", "method"},
		target: []string{"request_uri", "uri", "url", "path"},
		line:   []string{"request"},
		host:   []string{"http_host", "host", "server_name", "vhost"},
		status: []string{"status", "status_code"},
		bytes:  []string{"body_bytes_sent", "bytes_sent", "bytes"},
		lasted: []string{"request_time"},
		unit:   time.Second, atEnd: true,
		header: func(name string) string {
			return "http_" + strings.ReplaceAll(strings.ToLower(name), "-", "_")
		},
	},
}

// caddyLayout is of Caddy's JSON, and of the object in its lines for a console.
var caddyLayout = layout{
	name: "caddy", message: "msg", ending: "handled request", // it also logs errors with the request
	time:    []string{"ts", "time", "timestamp"},
	address: []string{"request.client_ip", "request.remote_ip", "request.remote_addr"},
	method:  []string{"request.method"}, target: []string{"request.uri"},
	host:   []string{"request.host"},
	status: []string{"status"}, bytes: []string{"size"}, lasted: []string{"duration"},
	unit: time.Second, atEnd: true,
	header: func(name string) string { return "request.headers." + name },
}

// otherHeaders returns the fields of ECS and OpenTelemetry.
func otherHeaders(name string) string {
	switch name {
	case "User-Agent":
		return "user_agent.original"
	case "Referer":
		return "http.request.referrer"
	}
	return "http.request.header." + strings.ToLower(name)
}

// jsonFormats are the rows of the table of formats.
var jsonFormats = func() (rows []format) {
	for i := range jsonLayouts {
		l := &jsonLayouts[i]
		rows = append(rows, format{name: l.name, auto: true, free: true, says: l.says,
			new: func(o *Options) (parser, error) { return newJSON(*l, o) }})
	}
	return append(rows,
		format{name: "caddy-console", auto: true, free: true, new: newConsole},
		format{name: "jsonl", free: true, new: func(o *Options) (parser, error) {
			return newJSON(layout{name: "jsonl", atEnd: o.Fields["duration"] != ""}, o)
		}})
}()
