package accesslog_test

import (
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
)

// sample is a log with one request, as a program writes it.
type sample struct {
	format, what string
	options      accesslog.Options
	text, want   string
}

// ms returns a number of milliseconds.
func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// Lines as the servers write them, with addresses and names made up.
var samples = []sample{
	{"common", "Apache's common", accesslog.Options{},
		`192.0.2.7 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326`,
		`2000-10-10T20:55:36 192.0.2.7 GET /apache_pb.gif 200 2326 ±1s`},
	{"common", "a user name with a blank, and a user as the key",
		accesslog.Options{Extras: []string{"key.user"}, Fields: map[string]string{"key.user": "user"}},
		`192.0.2.7 - ann smith [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 304 -`,
		`2000-10-10T20:55:36 192.0.2.7 GET / 304 0 ±1s "ann smith"`},
	{"combined", "Apache and nginx", accesslog.Options{Extras: []string{"header.Referer", "header.User-Agent"}},
		`2001:db8::7 - - [17/May/2015:10:05:03 +0000] "GET /a?b=c HTTP/1.1" 200 203023 "http://example.com/" ` +
			`"Mozilla/5.0 (X11) \"quoted\" Gecko"`,
		`2015-05-17T10:05:03 2001:db8::7 GET /a?b=c 200 203023 ±1s "http://example.com/" "Mozilla/5.0 (X11) \"quoted\" ` +
			`Gecko"`},
	{"combined", "nginx, with its duration behind, which nothing names", accesslog.Options{},
		`198.51.100.4 - - [24/Feb/2024:00:00:59 +0100] "POST /login HTTP/2.0" 401 31 "-" "curl/8.5.0" 0.003`,
		`2024-02-23T23:00:59 198.51.100.4 POST /login 401 31 ±1s`},
	{"vhost-combined", "Apache's vhost_combined", accesslog.Options{},
		`www.example.com:443 192.0.2.9 - - [12/Mar/2024:06:25:01 +0000] "GET /robots.txt HTTP/1.1" 200 512 "-" "Mozilla/5.0"`,
		`2024-03-12T06:25:01 192.0.2.9 GET /robots.txt 200 512 host=www.example.com:443 ±1s`},
	{"vhost-common", "Apache's vhost_common", accesslog.Options{},
		`example.org 192.0.2.9 - - [12/Mar/2024:06:25:01 +0000] "HEAD / HTTP/1.1" 200 -`,
		`2024-03-12T06:25:01 192.0.2.9 HEAD / 200 0 host=example.org ±1s`},
	{"traefik-common", "Traefik's common", accesslog.Options{},
		`192.0.2.11 - - [02/Apr/2024:08:11:10 +0000] "GET /whoami HTTP/1.1" 200 418 "-" "-" 17 "whoami@docker" ` +
			`"http://172.18.0.3:80" 12ms`,
		`2024-04-02T08:11:10 192.0.2.11 GET /whoami 200 418 took=12ms ±1s`},
	{"traefik", "Traefik's JSON", accesslog.Options{Extras: []string{"header.X-Tenant"}},
		`{"ClientAddr":"192.0.2.11:52342","ClientHost":"192.0.2.11","ClientPort":"52342","ClientUsername":"-",` +
			`"DownstreamContentSize":418,"DownstreamStatus":200,"Duration":1259262,"OriginContentSize":418,` +
			`"OriginDuration":1100000,"OriginStatus":200,"Overhead":159262,"RequestAddr":"example.com",` +
			`"RequestContentSize":0,"RequestCount":17,"RequestHost":"example.com","RequestMethod":"GET",` +
			`"RequestPath":"/whoami?x=1","RequestPort":"-","RequestProtocol":"HTTP/1.1","RequestScheme":"http",` +
			`"RetryAttempts":0,"RouterName":"whoami@docker","StartLocal":"2024-04-02T10:11:10.123456789+02:00",` +
			`"StartUTC":"2024-04-02T08:11:10.123456789Z","entryPointName":"web","level":"info","msg":"",` +
			`"request_X-Tenant":"acme","time":"2024-04-02T08:11:10Z"}`,
		`2024-04-02T08:11:10.123456 192.0.2.11 GET /whoami?x=1 200 418 host=example.com took=1.259262ms "acme"`},
	{"caddy", "Caddy, which stamps the end", accesslog.Options{Extras: []string{"header.X-Tenant"}},
		`{"level":"info","ts":1646861401.5241024,"logger":"http.log.access.log0","msg":"handled request",` +
			`"request":{"remote_ip":"198.51.100.1","remote_port":"41342","client_ip":"192.0.2.33","proto":"HTTP/2.0",` +
			`"method":"GET","host":"localhost","uri":"/docs/","headers":{"User-Agent":["curl/7.82.0"],"X-Tenant":["acme"],` +
			`"Accept-Encoding":["gzip, deflate, br"]},"tls":{"resumed":false,"version":772,"cipher_suite":4865,` +
			`"proto":"h2","server_name":"example.com"}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,` +
			`"status":200,"resp_headers":{"Server":["Caddy"]}}`,
		`2022-03-09T21:30:01.523173 192.0.2.33 GET /docs/ 200 10900 host=localhost took=929.675µs "acme"`},
	{"nginx-json", "nginx, with names of its variables", accesslog.Options{},
		`{"time_iso8601":"2024-02-24T12:00:59+00:00","remote_addr":"192.0.2.40","request_method":"GET",` +
			`"request_uri":"/items?page=2","status":200,"body_bytes_sent":"1234","request_time":"0.250",` +
			`"http_host":"shop.example"}`,
		`2024-02-24T12:00:59 192.0.2.40 GET /items?page=2 200 1234 host=shop.example took=250ms ±1s`},
	{"nginx-json", "nginx, msec and the request line", accesslog.Options{Extras: []string{"header.X-Tenant"}},
		`{"msec": "1708776059.750", "remote_addr": "192.0.2.40", "request": "GET /it\u0065ms HTTP/1.1", "status": "200",` +
			` "request_time": "0.250", "http_x_tenant": "acme"}`,
		`2024-02-24T12:00:59.5 192.0.2.40 GET /items 200 0 took=250ms "acme"`},
	{"alb", "an Application Load Balancer", accesslog.Options{Extras: []string{"header.User-Agent"}},
		`https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.0.2.131:2817 10.0.0.1:80 0.086 ` +
			`0.048 0.037 200 200 0 57 "GET https://www.example.com:443/?a=b HTTP/1.1" "curl/7.46.0" ` +
			`ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 ` +
			`arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 ` +
			`"Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.com" ` +
			`"arn:aws:acm:us-east-2:123456789012:certificate/12345678-1234-1234-1234-123456789012" 1 ` +
			`2018-07-02T22:22:48.364000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_123456`,
		`2018-07-02T22:22:48.364 192.0.2.131 GET /?a=b 200 57 host=www.example.com took=171ms "curl/7.46.0"`},
	{"alb", "one that could not forward", accesslog.Options{},
		`http 2018-11-30T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.0.2.131:2817 - -1 -1 -1 503 - 0 366 ` +
			`"GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - - arn "Root=1-58337364" "-" "-" 0 ` +
			`2018-11-30T22:22:48.364000Z "forward" "-" "-" "-" "-" "-" "-"`,
		`2018-11-30T22:22:48.364 192.0.2.131 GET / 503 366 host=www.example.com:80`},
	{"cloudfront", "CloudFront's standard log", accesslog.Options{Extras: []string{"header.User-Agent"}},
		"#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status " +
			"cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header " +
			"cs-protocol cs-bytes time-taken\n" +
			"2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t/index.html\t200\t-\tMozilla" +
			"/5.0%20(Windows)\ta=b\t-\tHit\tSOX4xwn4XV6Q4rgb7XiVGOHms_BGlTAC4KyHmureZmBNrjGdRLiNIQ==\td111111abcdef8.clou" +
			"dfront.net\thttps\t23\t0.001",
		`2019-12-04T21:02:31 192.0.2.100 GET /index.html?a=b 200 392 host=d111111abcdef8.cloudfront.net took=1ms ±1s ` +
			`"Mozilla/5.0 (Windows)"`},
	{"w3c", "IIS", accesslog.Options{},
		"#Software: Microsoft Internet Information Services 10.0\r\n#Version: 1.0\r\n" +
			"#Date: 2024-05-02 17:42:15\r\n" +
			"#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) " +
			"cs(Referer) sc-status sc-substatus sc-win32-status time-taken\r\n" +
			"2024-05-02 17:42:16 10.0.0.5 GET /default.htm - 80 - 192.0.2.66 Mozilla/4.0+(compatible) - 200 0 0 " +
			"1532\r\n",
		`2024-05-02T17:42:14 192.0.2.66 GET /default.htm 200 0 took=1.532s ±1s`},
	{"w3c", "a log that names its day once", accesslog.Options{},
		"#Version: 1.0\n#Date: 12-Jan-1996 00:00:00\n#Date: 2024-05-02 00:00:00\n" +
			"#Fields: time cs-method cs-uri c-ip\n00:34:23 GET /foo/bar.html 192.0.2.1",
		`2024-05-02T00:34:23 192.0.2.1 GET /foo/bar.html 0 0 ±1s`},
	{"jsonl", "fields by name",
		accesslog.Options{
			Format: "jsonl", Extras: []string{"key.user"}, Unit: time.Millisecond, Stamp: accesslog.AtStart,
			Fields: map[string]string{
				"time": "ts", "address": "client.ip", "method": "m", "path": "u", "status": "s", "duration": "ms",
				"key.user": "sub",
			},
		},
		`{"ts":1708776059123,"client":{"ip":"::ffff:192.0.2.40"},"m":"GET","u":"/x","s":200,"ms":12.5,"sub":"ann"}`,
		`2024-02-24T12:00:59.123 192.0.2.40 GET /x 200 0 took=12.5ms "ann"`},
	{"rack", "Rack, Puma and Sinatra", accesslog.Options{},
		`192.0.2.7 - - [28/Nov/2026:12:00:59 +0000] "GET /a?b=c HTTP/1.1" 200 5 0.0125`,
		`2026-11-28T12:00:59 192.0.2.7 GET /a?b=c 200 5 took=12.5ms ±1s`},
	{"gin", "gin's Logger", accesslog.Options{},
		`[GIN] 2026/11/29 - 07:51:53 | 200 |  12.31ms |       192.0.2.7 | GET      "/a\"b?c=d"`,
		`2026-11-29T07:51:53 192.0.2.7 GET /a"b?c=d 200 0 took=12.31ms ±1s`},
	{"gin", "gin's Logger on a terminal", accesslog.Options{},
		"[GIN] 2026/11/29 - 07:51:53 |\x1b[97;42m 200 \x1b[0m|  35.824µs |       192.0.2.7 |\x1b[97;46m POST    \x1b[0m " +
			"\"/a\"",
		`2026-11-29T07:51:53 192.0.2.7 POST /a 200 0 took=35.824µs ±1s`},
	{"chi", "chi's Logger, with RequestID", accesslog.Options{},
		`2026/11/29 07:51:53 [vm/4A8DHmuNEW-000001] "GET http://127.0.0.1:8302/a"b?c=d HTTP/1.1" from 192.0.2.7:55386 - ` +
			`200 5B in 12.210762ms`,
		`2026-11-29T07:51:53 192.0.2.7 GET /a"b?c=d 200 5 host=127.0.0.1:8302 took=12.210762ms ±1s`},
	{"chi", "chi's Logger alone", accesslog.Options{},
		`2026/11/29 07:51:53 "GET https://example.com/ HTTP/2.0" from [2001:db8::7]:55386 - 404 19B in 2.5s`,
		`2026-11-29T07:51:51 2001:db8::7 GET / 404 19 host=example.com took=2.5s ±1s`},
	{"haproxy", "option httplog, by HAProxy itself", accesslog.Options{},
		`<134>Nov 29 07:51:29 haproxy[11243]: 192.0.2.7:53748 [29/Nov/2026:07:51:29.079] a~ b/s1 0/1/2/3/86 200 76 - - ` +
			`---- 1/1/0/0/0 0/0 "GET /a#22b?c=d HTTP/1.1"`,
		`2026-11-29T07:51:29.079 192.0.2.7 GET /a#22b?c=d 200 76 took=86ms`},
	{"haproxy", "option httpslog, RFC 5424, and what it captures",
		accesslog.Options{Fields: map[string]string{"address": "captures"}},
		`<134>1 2026-11-29T07:51:29.114099+00:00 - haproxy 11243 - - 10.0.0.1:57288 [29/Nov/2026:07:51:29.113] r5 ` +
			`b/<NOSRV> 0/-1/-1/-1/0 200 76 - - LR-- 1/1/0/0/0 0/0 {203.0.113.9, 192.0.2.7|x} {} "GET /a HTTP/1.1" ` +
			`0/-/-/-/0 -/-/-`,
		`2026-11-29T07:51:29.113 192.0.2.7 GET /a 200 76 took=0s`},
	{"haproxy-clf", "option httplog clf", accesslog.Options{},
		`<134>Nov 29 07:51:29 haproxy[11243]: 192.0.2.7 - - [29/Nov/2026:07:51:29 +0000] "GET /a#22b?c=d HTTP/1.1" 200 ` +
			`76 "" "" 52034 086 "c" "b" "<NOSRV>" 0 -1 -1 -1 12 LR-- 1 1 0 0 0 0 0 "" "" `,
		`2026-11-29T07:51:29 192.0.2.7 GET /a#22b?c=d 200 76 took=12ms ±1s`},
	{"envoy", "Envoy's default", accesslog.Options{Extras: []string{"header.User-Agent"}},
		`[2026-11-29T07:50:43.238Z] "GET /a"b HTTP/1.1" 200 - 0 5 250 - "203.0.113.9,192.0.2.7" "curl/7.88.1" ` +
			`"57024f56-6030-4cea-a135-5c5f6711d13d" "127.0.0.1:8111" "-"`,
		`2026-11-29T07:50:43.238 192.0.2.7 GET /a"b 200 5 host=127.0.0.1:8111 took=250ms "curl/7.88.1"`},
	{"istio", "Istio's sidecar", accesslog.Options{},
		`[2026-11-29T10:30:00.000Z] "GET /api/users HTTP/1.1" 200 - via_upstream - "-" 0 1234 45 43 "-" "curl/7.81.0" ` +
			`"abc-123" "myservice:8080" "10.0.1.5:8080" inbound|8080|| 10.0.1.5:42566 10.0.1.5:8080 192.0.2.7:54321 - ` +
			`default`,
		`2026-11-29T10:30:00 192.0.2.7 GET /api/users 200 1234 host=myservice:8080 took=45ms`},
	{"squid", "Squid's own", accesslog.Options{},
		`1795938648.310     12 192.0.2.7 TCP_MISS/200 3413 GET http://example.com/a"b? - HIER_DIRECT/198.51.100.1 text/html`,
		`2026-11-29T07:50:48.298 192.0.2.7 GET /a"b? 200 3413 host=example.com took=12ms`},
	{"uwsgi", "uWSGI", accesslog.Options{},
		`[pid: 11326|app: 0|req: 1/1] 192.0.2.7 () {26 vars in 293 bytes} [Sun Nov 29 07:51:39 2026] GET /a"b?c=d => ` +
			`generated 5 bytes in 12 msecs (HTTP/1.1 200) 1 headers in 38 bytes (1 switches on core 0)`,
		`2026-11-29T07:51:39 192.0.2.7 GET /a"b?c=d 200 5 took=12ms ±1s`},
	{"actix", "actix with env_logger", accesslog.Options{},
		`[2026-11-29T07:51:39Z INFO  actix_web::middleware::logger] 192.0.2.7 "GET /a?b=c HTTP/1.1" 200 5 "-" "curl/8" ` +
			`0.000123`,
		`2026-11-29T07:51:39 192.0.2.7 GET /a?b=c 200 5 took=123µs ±1s`},
	{"armeria", "Armeria's combined, by Logback", accesslog.Options{},
		`07:53:36.834 [armeria-common-worker-epoll-3-4] INFO  com.linecorp.armeria.logging.access -- 192.0.2.7 - - ` +
			`29/Nov/2026:07:53:36 +0000 "GET /a%20b#M$$Lambda$273/0x00007fba94199ce8 h1c" 200 5 "-" "curl/7.88.1" "-"`,
		`2026-11-29T07:53:36 192.0.2.7 GET /a%20b 200 5 ±1s`},
	{"armeria", "Armeria's common, alone", accesslog.Options{},
		`192.0.2.7 - - 29/Nov/2026:07:53:36 +0000 "GET /x#Hello h2c" 200 5`,
		`2026-11-29T07:53:36 192.0.2.7 GET /x 200 5 ±1s`},
	{"combined", "hypercorn, which escapes nothing", accesslog.Options{},
		`[2026-11-29 07:51:39 +0000] [11334] [INFO] 192.0.2.7:50780 - - [29/Nov/2026:07:51:39 +0000] "GET /a"b 1.1" 200 ` +
			`5 "-" "a "q" b"`,
		`2026-11-29T07:51:39 192.0.2.7 GET /a"b 200 5 ±1s`},
	{"common", "Werkzeug, and the server of Python", accesslog.Options{},
		`192.0.2.7 - - [29/Nov/2026 07:51:39] "GET /a HTTP/1.1" 200 -`,
		`2026-11-29T07:51:39 192.0.2.7 GET /a 200 0 ±1s`},
	{"caddy-console", "Caddy for a console", accesslog.Options{Extras: []string{"header.User-Agent"}},
		"2026/11/29 07:50:44.781\t\x1b[34mINFO\x1b[0m\thttp.log.access.log0\thandled request\t" +
			`{"request": {"remote_ip": "192.0.2.7", "remote_port": "46054", "proto": "HTTP/1.1", "method": "GET", "host": ` +
			`"127.0.0.1:8121", "uri": "/a\"b?c=d", "headers": {"User-Agent": ["a \"q\" b"]}}, "user_id": "", "duration": ` +
			`0.5, "size": 5, "status": 200, "resp_headers": {"Server": ["Caddy"]}}`,
		`2026-11-29T07:50:44.281 192.0.2.7 GET /a"b?c=d 200 5 host=127.0.0.1:8121 took=500ms "a \"q\" b"`},
	{"caddy", "Caddy with other forms of times and durations", accesslog.Options{},
		`{"level":"info","ts":"2026-11-29T07:50:44.789026867Z","msg":"handled request",` +
			`"request":{"remote_ip":"192.0.2.7","method":"GET","host":"a","uri":"/"},"duration":"13.27µs","size":5,` +
			`"status":200}`,
		`2026-11-29T07:50:44.789013 192.0.2.7 GET / 200 5 host=a took=13.27µs`},
	{"tomcat", "Tomcat's JsonAccessLogValve, whose durations have no unit", accesslog.Options{},
		`{"host":"192.0.2.7","logicalUserName":"-","user":"-","time":"[29/Nov/2026:07:53:46 +0000]","request":"GET ` +
			`/a?c=d HTTP/1.1","statusCode":"200","size":"5","elapsedTime":"51249","requestHeaders": {"Referer":"-",` +
			`"User-Agent":"a \"q\" b"}}`,
		`2026-11-29T07:53:46 192.0.2.7 GET /a?c=d 200 5 ±1s`},
	{"tomcat", "Tomcat's, with a unit", accesslog.Options{Unit: time.Microsecond},
		`{"remoteAddr":"192.0.2.7","elapsedTime":"51249","host":"192.0.2.7","logicalUserName":"-","method":"GET",` +
			`"query":"?c=d","statusCode":"200","time":"[29/Nov/2026:07:53:46 +0000]","path":"/a",` +
			`"localServerName":"example.com","size":"5"}`,
		`2026-11-29T07:53:46 192.0.2.7 GET /a?c=d 200 5 host=example.com took=51.249ms ±1s`},
	{"echo", "echo's Logger", accesslog.Options{},
		`{"time":"2026-11-29T07:51:53.712824046Z","id":"","remote_ip":"192.0.2.7","host":"127.0.0.1:8303",` +
			`"method":"GET","uri":"/a\"b?c=d","user_agent":"a \"q\" b","status":200,"error":"","latency":5438000,` +
			`"latency_human":"5.438ms","bytes_in":0,"bytes_out":5}`,
		`2026-11-29T07:51:53.707386 192.0.2.7 GET /a"b?c=d 200 5 host=127.0.0.1:8303 took=5.438ms`},
	{"pino", "pino-http", accesslog.Options{Extras: []string{"header.X-Tenant"}},
		`{"level":30,"time":1795938716944,"pid":11754,"hostname":"vm","req":{"id":1,"method":"GET","url":"/a?c=d",` +
			`"query":{"c":"d"},"params":{},"headers":{"host":"127.0.0.1:8410","x-tenant":"acme"},` +
			`"remoteAddress":"::ffff:192.0.2.7","remotePort":51718},"res":{"statusCode":200,` +
			`"headers":{"content-length":"5"}},"responseTime":16,"msg":"request completed"}`,
		`2026-11-29T07:51:56.928 192.0.2.7 GET /a?c=d 200 5 host=127.0.0.1:8410 took=16ms "acme"`},
	{"fastify", "Fastify, which logs the arrival", accesslog.Options{},
		`{"level":30,"time":1795938716955,"pid":11754,"hostname":"vm","reqId":"req-1","req":{"method":"GET",` +
			`"url":"/a?c=d","host":"127.0.0.1:8411","remoteAddress":"192.0.2.7","remotePort":43690},"msg":"incoming ` +
			`request"}`,
		`2026-11-29T07:51:56.955 192.0.2.7 GET /a?c=d 0 0 host=127.0.0.1:8411`},
	{"envoy-json", "Istio's and Envoy Gateway's JSON", accesslog.Options{},
		`{"authority":"httpbin.default:8000","bytes_received":"0","bytes_sent":"615",` +
			`"connection_termination_details":null,"downstream_remote_address":"192.0.2.7:45678","duration":"4",` +
			`"method":"GET","path":"/status/200","protocol":"HTTP/1.1","response_code":"200","response_flags":"-",` +
			`"start_time":"2026-02-24T10:30:45.123Z","user_agent":"curl/7.88.1","x_forwarded_for":null}`,
		`2026-02-24T10:30:45.123 192.0.2.7 GET /status/200 200 615 host=httpbin.default:8000 took=4ms`},
	{"cloudflare", "Cloudflare's Logpush", accesslog.Options{Extras: []string{"header.User-Agent"}},
		`{"ClientIP":"192.0.2.7","ClientRequestHost":"example.com","ClientRequestMethod":"GET",` +
			`"ClientRequestURI":"/a?b=c","ClientRequestUserAgent":"curl/8","EdgeEndTimestamp":"2026-11-28T12:00:59Z",` +
			`"EdgeResponseBytes":5,"EdgeResponseStatus":200,"EdgeStartTimestamp":1795867259000000000,"RayID":"3a"}`,
		`2026-11-28T12:00:59 192.0.2.7 GET /a?b=c 200 5 host=example.com "curl/8"`},
	{"cloudfront-json", "CloudFront's standard log as JSON", accesslog.Options{},
		`{"date":"2026-11-28","time":"12:00:59","x-edge-location":"LAX1","sc-bytes":"392","c-ip":"192.0.2.7",` +
			`"cs-method":"GET","cs(Host)":"d1.cloudfront.net","cs-uri-stem":"/index.html","sc-status":"200",` +
			`"cs-uri-query":"a=b","x-host-header":"example.com","time-taken":"0.001"}`,
		`2026-11-28T12:00:59 192.0.2.7 GET /index.html?a=b 200 392 host=example.com took=1ms ±1s`},
	{"gcp", "a balancer of Google", accesslog.Options{Extras: []string{"header.User-Agent"}},
		`{"httpRequest":{"latency":"0.058927s","remoteIp":"192.0.2.7","requestMethod":"GET","requestSize":"257",` +
			`"requestUrl":"https://example.com/console/","responseSize":"1467","status":302,"userAgent":"curl/8"},` +
			`"insertId":"1","timestamp":"2026-11-28T12:00:59.5Z"}`,
		`2026-11-28T12:00:59.5 192.0.2.7 GET /console/ 302 1467 host=example.com took=58.927ms "curl/8"`},
	{"ecs", "httplog of chi, by ECS", accesslog.Options{},
		`{"@timestamp":"2026-11-29T07:51:53Z","log.level":"INFO","message":"GET /a%22b?c=d => HTTP 200 (12.215639ms)",` +
			`"url.full":"http://example.com/a%22b?c=d","http.request.method":"GET","url.path":"/a\"b",` +
			`"client.ip":"192.0.2.7:39208","url.domain":"example.com","http.response.status_code":200,` +
			`"event.duration":12215639,"http.response.body.bytes":5}`,
		`2026-11-29T07:51:53 192.0.2.7 GET /a%22b?c=d 200 5 host=example.com took=12.215639ms ±1s`},
	{"otel", "httplog of chi, by OpenTelemetry", accesslog.Options{},
		`{"timestamp":"2026-11-29T07:51:53Z","severity_text":"INFO","body":"GET","url.full":"http://example.com/a?c=d",` +
			`"http.request.method":"GET","url.path":"/a","client.address":"192.0.2.7:59964",` +
			`"server.address":"example.com","http.response.status_code":200,"http.server.request.duration":2.5,` +
			`"http.response.body.size":5}`,
		`2026-11-29T07:51:51 192.0.2.7 GET /a?c=d 200 5 host=example.com took=2.5s ±1s`},
	{"jsonl", "date and time apart, and the query",
		accesslog.Options{
			Format: "jsonl",
			Fields: map[string]string{
				"date": "d", "time": "t", "address": "ip", "method": "m", "path": "p", "query": "q", "duration": "took_us",
			},
		},
		`{"d":"2026-11-28","t":"12:00:59.500","ip":"192.0.2.7","m":"GET","p":"/a","q":"b=c","took_us":500000}`,
		`2026-11-28T12:00:59 192.0.2.7 GET /a?b=c 0 0 took=500ms`},
	{"jsonl", "JSON as a text of a collector's object",
		accesslog.Options{
			Format: "jsonl",
			Fields: map[string]string{"time": "ts", "address": "ip", "method": "m", "path": "p"},
		},
		`{"date":1795867259.5,"stream":"stdout","message":"{\"ts\":\"2026-11-28T12:00:59.5Z\",\"ip\":\"192.0.2.7\",` +
			`\"m\":\"GET\",\"p\":\"/a\"}"}`,
		`2026-11-28T12:00:59.5 192.0.2.7 GET /a 0 0`},
	{"combined", "a line in an object of Fluent Bit", accesslog.Options{},
		`{"date":1795867259.5,"stream":"stdout","kubernetes":{"pod_name":"web"},"log":"192.0.2.7 - - ` +
			`[28/Nov/2026:12:00:59 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"a\"\n"}`,
		`2026-11-28T12:00:59 192.0.2.7 GET /a 200 5 ±1s`},
	{"combined", "a line in a field that is named",
		accesslog.Options{Format: "jsonl", Fields: map[string]string{"line": "data.text"}},
		`{"data":{"text":"192.0.2.7 - - [28/Nov/2026:12:00:59 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"a\""}}`,
		`2026-11-28T12:00:59 192.0.2.7 GET /a 200 5 ±1s`},
	{"combined", "nginx's main, by its last column",
		accesslog.Options{Fields: map[string]string{"address": "http_x_forwarded_for"}},
		`10.0.0.1 - - [28/Nov/2026:12:00:59 +0000] "GET /a HTTP/1.1" 200 5 "-" "a" "203.0.113.9, 192.0.2.7"`,
		`2026-11-28T12:00:59 192.0.2.7 GET /a 200 5 ±1s`},
	{"combined", "a duration behind the agent, with its unit",
		accesslog.Options{Fields: map[string]string{"duration": "extra.2"}, Unit: time.Second},
		`192.0.2.7 - - [28/Nov/2026:12:00:59 +0000] "GET /a HTTP/1.1" 200 5 "-" "a" "-" 2.500`,
		`2026-11-28T12:00:57 192.0.2.7 GET /a 200 5 took=2.5s ±1s`},
}
