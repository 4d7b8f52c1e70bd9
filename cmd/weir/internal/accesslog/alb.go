package accesslog

import (
	"bytes"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/ground/address"
)

// alb reads access logs of AWS Application Load Balancers. A line has the time at which the
// balancer received the request.
//
//	https 2018-07-02T22:23:00.186641Z app/lb/50dc6c495c0c9188 192.0.2.7:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/ HTTP/1.1" "curl/7.46.0" …
type alb struct {
	clock  stamps
	extras []int
}

// albColumns are the columns that Options.Fields may name.
var albColumns = []string{
	"type", "time", "elb", "client:port", "target:port", "request_processing_time",
	"target_processing_time", "response_processing_time", "elb_status_code", "target_status_code",
	"received_bytes", "sent_bytes", "request", "user_agent", "ssl_cipher", "ssl_protocol",
	"target_group_arn", "trace_id", "domain_name", "chosen_cert_arn", "matched_rule_priority",
	"request_creation_time", "actions_executed",
}

const (
	albTime    = 1
	albClient  = 3
	albWaits   = 5
	albStatus  = 8
	albSent    = 11
	albRequest = 12
	albAgent   = 13
	albDomain  = 18
	albCreated = 21
)

var albFormats = []format{{name: "alb", auto: true, new: newALB}}

func newALB(o *Options) (parser, error) {
	p := &alb{extras: make([]int, len(o.Extras))}
	for i, extra := range o.Extras {
		name := o.Fields[extra]
		if extra == "header.User-Agent" && name == "" {
			name = "user_agent"
		}
		p.extras[i] = -1
		for column, known := range albColumns {
			if known == name {
				p.extras[i] = column
			}
		}
		if name != "" && p.extras[i] < 0 {
			return nil, noField("alb", name, strings.Join(albColumns, ", "))
		}
	}
	if err := o.fixed("alb"); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *alb) stampsEnds() bool { return false }

// others yields nothing: the balancer itself is what clients reach.
func (p *alb) others([]byte, func(string, []byte)) {}

func (p *alb) parse(line []byte, e *Entry) problem {
	var cells [23][]byte
	n := 0
	for rest := line; n < len(cells) && len(rest) > 0; n++ {
		ok := true
		if rest[0] == '"' {
			cells[n], rest, ok = cutQuoted(rest)
			rest = bytes.TrimPrefix(rest, []byte(" "))
		} else {
			cells[n], rest, _ = cutSpace(rest)
		}
		if !ok {
			return malformed
		}
	}
	if n <= albRequest || bytes.IndexByte(cells[0], '=') >= 0 ||
		!bytes.Contains(cells[2], []byte("/")) {
		return malformed
	}
	at, exact, ok := p.clock.read(cells[albTime])
	if !ok {
		return malformed
	}
	e.HasEnd = true
	for _, cell := range cells[albWaits : albWaits+3] {
		wait, ok := readDuration(cell, time.Second)
		if !ok { // −1: the request was not forwarded or not answered
			e.HasEnd = false
		}
		e.Lasted += wait
	}
	if created, finer, ok := p.clock.read(cells[albCreated]); ok && created <= at {
		e.arrive(created, finer, false)
	} else {
		e.arrive(at, exact, true)
	}
	e.Status, e.Bytes = readStatus(cells[albStatus]), readSize(cells[albSent])
	e.Host = dashless(view(cells[albDomain]))
	for i, column := range p.extras {
		if column >= 0 {
			e.Extra[i] = dashless(view(cells[column]))
		}
	}
	e.format = "alb"
	if why := e.setRequestLine(unescape(cells[albRequest])); why != fine {
		return why
	}
	return e.setParsed(address.ParseWithPort(view(cells[albClient])))
}
