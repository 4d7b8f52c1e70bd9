package accesslog

import "fmt"

// lacking describes lines that cannot be simulated, since they lack something.
type lacking struct {
	by    string
	lacks string
	do    string // what the reader should do
	forms []string
}

// lackings are the rows of formats that lack something. A column <clock> is a time without a date.
var lackings = []lacking{
	{"Fiber's logger", "no date", `give it TimeFormat: "02/Jan/2006:15:04:05 -0700" and ` +
		`Format: logger.CombinedFormat`, []string{
		`<clock> | <status> | <took> | <address> | <method> | <path>*`,
		`<address> - - [<clock>] "<request...>" <status> <bytes>*`,
		`{"time":"<clock>","ip":"<address>",*`, `{"@timestamp":"<clock>","ecs":*`}},
	{"uvicorn", "no date", "simulate the log of the proxy in front, or serve by hypercorn or " +
		"gunicorn with --access-logfile", []string{`INFO: <address> - "<request...>" <status> *`}},
	{"morgan", "no date", "use morgan('combined')", []string{
		`<address> <user> <method> <path> <protocol> <status> <bytes> - <ms> ms`,
		`<method> <path> <status> <bytes> - <ms> ms`, `<method> <path> <status> <ms> ms - <bytes>`}},
	{"tower-http's TraceLayer, as of axum", "no client", "record the address in make_span_with, " +
		"write JSON, and name its fields by --format jsonl --field", []string{
		`<level> request{method=<method> uri=<path> version=<protocol>}:*`, // behind its time
		`<level> tower_http::trace::<event>:*`}},
	{"Django's runserver", "no client", "serve by gunicorn with --access-logfile -", []string{
		`[<day> <clock>] "<request...>" <status> <bytes>`}},
	{"HAProxy without option httplog", "no request", "set option httplog", []string{
		`Connect from <address> to <to> (<frontend>/<mode>)`,
		`<address> [<time>] <frontend> <backend> <tw>/<tc>/<tt> <bytes> <state> <connections> <queues>`}},
	{"the error log of nginx or Apache", "no requests", "name the access log", []string{
		`<day> <clock> [<level>] <pid>#<tid>:*`, `[<weekday> <month> <day> <clock> <year>] [<level>] *`}},
}

// lack returns what most of the first lines lack, or nil.
func lack(h *head, o *envelope) error {
	most, of := 0, (*lacking)(nil)
	for i := range lackings {
		n := lackings[i].count(h, o)
		if n > most {
			most, of = n, &lackings[i]
		}
	}
	if of == nil {
		return nil
	}
	return fmt.Errorf("%w: its lines are of %s, and have %s: %s", ErrFormat, of.by, of.lacks, of.do)
}

// count returns how many of the first lines have one of the forms.
func (l *lacking) count(h *head, o *envelope) (n int) {
	forms := make([]textForm, len(l.forms))
	for i, form := range l.forms {
		forms[i].columns = columnsOf(form)
		forms[i].cells = make([][]byte, len(forms[i].columns))
	}
	tried := 0
	for line := range h.lines {
		if tried++; tried > linesTried {
			break
		}
		line = o.open(line)
		for i := range forms {
			f := &forms[i]
			if !f.match(line) {
				continue
			}
			if at := f.index("clock"); at < 0 || isClock(f.cells[at]) {
				n++
				break
			}
		}
	}
	return n
}

// isClock reports whether s is a time of day without a date, such as 07:51:53.
func isClock(s []byte) bool {
	if len(s) < len("07:51:53") || s[2] != ':' || s[5] != ':' {
		return false
	}
	for _, c := range s {
		if (c < '0' || c > '9') && c != ':' && c != '.' && c != ',' {
			return false
		}
	}
	return true
}
