package lab

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/report"
	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// Replay replays an access log through the limits of all panels, as weir simulate does: each panel
// on its own, by the address of the client. Make one with [Lab.Replay]. It keeps the log in memory.
type Replay struct {
	log    *io.PipeWriter
	stop   context.CancelFunc
	ended  chan struct{}
	report *simulate.Report
	err    error
	panels []int // indexes of the panels in the sides of report
}

// Replayed is the result of a replay.
type Replayed struct {
	Headline string  // number of requests, time, number of clients
	Reading  string  // how the log was read
	Requests string  // number of requests
	Over     []int64 // requests per interval, of equal length
	Rows     []ReplayedPanel
	Notes    []string
}

// ReplayedPanel is the result of one panel. Numbers are ranges if the stamps of the log are whole
// seconds.
type ReplayedPanel struct {
	Panel        int
	Denied       string  // requests
	DeniedShare  string  // share of all requests
	Over         []int64 // denied per interval, at most
	Delayed      string  // requests that would wait in a queue; "": none
	Clients      string  // with at least one denial
	ClientsShare string  // share of all clients
	Wait         string  // longest wait; "": none
	First        string  // time of the first denial; "": none
	Missing      []string
}

// errOver stops the writer of a log that is no longer needed.
var errOver = errors.New("the replay is over")

// newReplay starts to replay a log through policies. panels are their panels.
func newReplay(name string, policies []*simulate.Policy, panels []int) *Replay {
	r := &Replay{ended: make(chan struct{}), panels: panels}
	var read *io.PipeReader
	read, r.log = io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		defer close(r.ended)
		r.report, r.err = simulate.Do(ctx,
			simulate.Options{Logs: []string{"-"}, Stdin: read, Name: name,
				Policy: policies[0], Others: policies[1:]})
		read.CloseWithError(errOver)
	}()
	return r
}

// Write adds to the log. It fails if the log cannot be used; Result has the reason.
func (r *Replay) Write(text []byte) (int, error) { return r.log.Write(text) }

// Stop ends a replay without a result.
func (r *Replay) Stop() {
	r.stop()
	r.log.CloseWithError(errOver)
	<-r.ended
}

// Result ends the log and returns the result.
func (r *Replay) Result() (Replayed, error) {
	r.log.Close()
	<-r.ended
	r.stop()
	if r.err != nil {
		return Replayed{}, r.err
	}
	all := r.report
	if all.Requests == 0 {
		return Replayed{},
			errors.New("the log has no requests: " +
				strings.Join(append([]string{report.Reading(all)}, report.Skipped(all)...), "; "))
	}
	if err := all.Disordered(); err != nil {
		return Replayed{}, err
	}
	result := Replayed{
		Headline: report.Headline(all), Reading: report.Reading(all),
		Notes:    append(report.Skipped(all), all.Notes...),
		Requests: report.Range(simulate.Range{Low: all.Requests, High: all.Requests}),
	}
	for _, bar := range all.Bars {
		result.Over = append(result.Over, bar.Asked)
	}
	for i, side := range append([]simulate.Side{all.Policy}, all.Others...) {
		row := ReplayedPanel{
			Panel: r.panels[i], Denied: report.Range(side.Denied),
			DeniedShare:  report.Share(side.Denied, all.Requests),
			Clients:      report.Range(side.Clients),
			ClientsShare: report.Share(side.Clients, all.Clients),
		}
		if side.Delayed.High > 0 {
			row.Delayed = report.Range(side.Delayed)
		}
		for _, denied := range side.Over {
			row.Over = append(row.Over, denied.High)
		}
		var first *time.Time
		wait := time.Duration(0)
		for i := range side.Rules {
			rule := &side.Rules[i]
			wait = max(wait, time.Duration(rule.WaitMillis.High)*time.Millisecond)
			if rule.First != nil && (first == nil || rule.First.Before(*first)) {
				first = rule.First
			}
		}
		if wait > 0 {
			row.Wait = Duration(wait)
		}
		if first != nil {
			row.First = first.Format("2 Jan 15:04:05")
		}
		for _, s := range side.Skipped {
			row.Missing = append(row.Missing, s.Rule+": "+s.Why)
		}
		if len(side.Rules) == 0 {
			row.Denied, row.DeniedShare, row.Clients, row.ClientsShare = "", "", "", ""
		}
		result.Rows = append(result.Rows, row)
	}
	return result, nil
}
