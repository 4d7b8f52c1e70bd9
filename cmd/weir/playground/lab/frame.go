package lab

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/weir-go/weir/limits"
)

// A frame is the data of a picture: float64s, little-endian. It begins with
//
//	now, lags, until Retry-After of the selected panel (−1: none), panels, gauges, events
//
// then for each panel [PanelFields], for each gauge [GaugeFields] and for each event [EventFields].
// Times are microseconds; those of events count from the start.
const (
	HeadFields  = 6
	PanelFields = 2 // allowed, denied
	// panel, remaining, most, level, until the next unit (−1: unknown), delay, until fresh
	GaugeFields = 7
	// kind, panel, at, verdict, cost, attempt, Retry-After (−1: none helps), delay, left, level
	// before and after
	EventFields = 11
)

// FrameSize is the maximal size of a frame in bytes.
const FrameSize = 8 * (HeadFields + maxPanels*(PanelFields+maxRules*GaugeFields) +
	(maxEvents+3*maxTogether*maxPanels)*EventFields)

func appendGauge(b []byte, panel int, g Gauge) []byte {
	return floats(b, float64(panel), float64(g.Remaining), float64(g.Most), g.Level,
		micros(g.Next), micros(g.Delay), micros(g.Reset))
}

func appendEvent(b []byte, e *Event) []byte {
	return floats(b, float64(e.Kind), float64(e.Panel), float64(e.At), float64(e.Verdict),
		float64(e.Cost), float64(e.Attempt), micros(e.Retry), micros(e.Delay), float64(e.Left),
		e.Before, e.Level)
}

func floats(b []byte, numbers ...float64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(n))
	}
	return b
}

func micros(d time.Duration) float64 {
	if d == limits.Never {
		return -1
	}
	return float64(d.Microseconds())
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
