package admin

import (
	"github.com/weir-go/weir/internal/http/operator"
	"github.com/weir-go/weir/stats"
)

// shedderView is a shedder. The page shows shedders and cannot change them.
type shedderView struct {
	Name, Mode                                                       string
	Limit, MaxInFlight, InFlight, Streams, Exempt, Shadowed, Waiting int
	Oldest                                                           int64 // microseconds
	ExemptTotal, Panics                                              int64
	Classes                                                          []classView
}

type classView struct {
	Name                            string
	Share, Entry, InFlight, Waiting int
	Admitted, Shed, Shadowed, Left  int64
}

func viewShedder(s *stats.ShedderSnapshot) shedderView {
	v := shedderView{
		Name: s.Name, Mode: s.Mode.String(),
		Limit: s.Limit, MaxInFlight: s.MaxInFlight, InFlight: s.InFlight, Streams: s.Streams,
		Exempt: s.Exempt, Shadowed: s.Shadowed, Waiting: s.Waiting,
		Oldest: operator.Micros(s.Oldest), ExemptTotal: s.ExemptTotal, Panics: s.Panics,
		Classes: make([]classView, 0, len(s.Classes)),
	}
	for _, c := range s.Classes {
		v.Classes = append(v.Classes, classView{
			c.Name, c.Share, c.Entry, c.InFlight, c.Waiting, c.Admitted, c.Shed, c.Shadowed, c.Left,
		})
	}
	return v
}
