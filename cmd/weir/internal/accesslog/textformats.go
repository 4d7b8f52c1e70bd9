package accesslog

// textFormats are the rows of formats whose lines are texts. A further one is a row here, a sample
// of its lines in the tests, and a row of the guide.
var textFormats = textRows(
	textFormat{
		name:  "gin",
		lines: []string{`[GIN] <time...> | <status> | <took> | <address> | <method> <"path">`},
		atEnd: true,
		says: "gin logs ClientIP, which is what the client wrote into X-Forwarded-For unless " +
			"the program names its trusted proxies: then a client counts as any address that " +
			"it names.",
		messages: []string{"[GIN-debug]", "Error #"},
		decoded:  true,
	},
	textFormat{
		name: "chi",
		lines: []string{
			`<time...> [<request_id>] "<method> <path> <protocol>" from <address> - <status> ` +
				`<bytes>B in <took>`,
			`<time...> "<method> <path> <protocol>" from <address> - <status> <bytes>B in <took>`,
		},
		atEnd: true,
	},
	textFormat{
		name: "haproxy", // option httplog, and option httpslog, which appends
		lines: []string{
			`<address> [<time>] <frontend> <backend> <tq>/<tw>/<tc>/<tr>/<ms> <status> ` +
				`<bytes> <cookie> <set_cookie> <state> <connections> <queues> ` +
				`"<request...>"*`,
			`<address> [<time>] <frontend> <backend> <tq>/<tw>/<tc>/<tr>/<ms> <status> ` +
				`<bytes> <cookie> <set_cookie> <state> <connections> <queues> <captures...> ` +
				`"<request...>"*`,
		},
		messages: []string{"Connect from ", "Proxy ", "Server "},
		port:     true,
	},
	textFormat{
		name: "haproxy-clf", // option httplog clf
		lines: []string{
			`<address> - - [<time...>] "<request...>" <status> <bytes> "" "" <port> ` +
				`<millisecond> "<frontend>" "<backend>" "<server>" <tq> <tw> <tc> <tr> <ms> ` +
				`<state> *`,
		},
	},
	textFormat{
		name: "envoy",
		lines: []string{
			`[<time>] "<method> <path> <protocol>" <status> <flags> <received> <bytes> <ms> ` +
				`<upstream_ms> "<x-forwarded-for...>" "<agent...>" "<request_id...>" ` +
				`"<host>" "<upstream>"`,
		},
		roles: map[string]string{"address": "x-forwarded-for"},
		// of a target with #, and the like: it appends no address then
		refused: map[string]string{"status": "400", "request_id": "-"},
		says: "Envoy's default format has no address of the connection. The last one of " +
			"X-Forwarded-For counts: Envoy appends it with use_remote_address, and passes on " +
			"what the client wrote without.",
	},
	textFormat{
		name: "istio",
		lines: []string{
			`[<time>] "<method> <path> <protocol>" <status> <flags> <details> <termination> ` +
				`"<failure...>" <received> <bytes> <ms> <upstream_ms> "<x-forwarded-for...>" ` +
				`"<agent...>" "<request_id...>" "<host>" "<upstream>" <cluster> ` +
				`<upstream_local> <local> <address> <sni> <route>`,
		},
	},
	textFormat{
		name: "squid",
		lines: []string{
			`<time> <ms> <address> <result>/<status> <bytes> <method> <path> <user> ` +
				`<hierarchy> <type>`,
		},
		atEnd: true,
	},
	textFormat{
		name: "uwsgi",
		lines: []string{
			`[pid: <pid>|app: <app>|req: <req>] <address> (<user...>) {<vars> vars in <size> ` +
				`bytes} [<time...>] <method> <path> => generated <bytes> bytes in <ms> msecs ` +
				`(<protocol> <status>)*`,
			`[pid: <pid>|app: <app>|req: <req>] <address> (<user...>) {<vars> vars in <size> ` +
				`bytes} [<time...>] <method> <path> => generated <bytes> bytes in <us> ` +
				`micros (<protocol> <status>)*`,
		},
	},
	textFormat{
		name: "actix", // by env_logger
		lines: []string{
			`[<time> <level> <logger>] <address> "<method> <path> <protocol>" <status> ` +
				`<bytes> "<referer...>" "<agent...>" <s>`,
		},
		atEnd: true,
	},
	textFormat{
		name: "armeria",
		lines: []string{
			`<address> <ident> <user> <time...> "<method> <path> <protocol>" <status> <bytes> ` +
				`"<referer...>" "<agent...>" "<cookie...>"*`,
			`<address> <ident> <user> <time...> "<method> <path> <protocol>" <status> <bytes>`,
		},
		after: "com.linecorp.armeria.logging.access",
		cut:   "#", // the name of the service
	},
)

// textRows returns rows of the table of formats.
func textRows(all ...textFormat) (rows []format) {
	for i := range all {
		f := &all[i]
		rows = append(rows, format{name: f.name, auto: true, says: f.says,
			new: func(o *Options) (parser, error) { return newText(f, o) }})
	}
	return rows
}
