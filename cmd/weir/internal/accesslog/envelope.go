package accesslog

// envelopes are the fields of an object in which collectors put the line of a server: Docker,
// Fluent Bit, Fluentd, Filebeat, Vector, journald, Google's logging, logcli.
var envelopes = []string{
	"log", "message", "MESSAGE", "textPayload", "line", "event.original", "msg",
}

// envelope is an object around each line of a log. A nil envelope opens what [unwrap] knows.
type envelope struct {
	scanner scanner
	at      int
}

func newEnvelope(path string) *envelope {
	e := &envelope{}
	e.at = e.scanner.want(path)
	return e
}

// open returns the line of a server. A line without the object is returned as it is.
func (e *envelope) open(line []byte) []byte {
	line = unwrap(trim(line))
	if e == nil || len(line) == 0 || line[0] != '{' || len(line) > maxLine || !e.scanner.scan(line) {
		return line
	}
	if v := e.scanner.values[e.at]; v.known {
		return unwrap(trim(v.text))
	}
	return line
}
