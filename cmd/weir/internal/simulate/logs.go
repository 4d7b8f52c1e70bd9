package simulate

import (
	"cmp"
	"fmt"
	"io"
	"os"

	"github.com/weir-go/weir/cmd/weir/internal/accesslog"
	"github.com/weir-go/weir/cmd/weir/internal/files"
	"github.com/weir-go/weir/cmd/weir/internal/visible"
)

// openLogs are the logs of one pass.
type openLogs struct {
	logs   []*accesslog.Log
	meters []*accesslog.Meter
	files  []*os.File
	infos  []os.FileInfo // nil: standard input, or unknown
	total  int64
}

func (o *openLogs) close() {
	for _, l := range o.logs {
		l.Close()
	}
	for _, f := range o.files {
		f.Close()
	}
}

// open opens all logs. read says how to read their lines.
func open(s *Options, read *accesslog.Options) (*openLogs, error) {
	o := &openLogs{}
	for _, name := range s.Logs {
		var r io.Reader = s.Stdin
		var info os.FileInfo
		if name != "-" {
			f, err := files.Open(name)
			if err != nil {
				return o, visible.Error(err)
			}
			o.files = append(o.files, f)
			if info, err = f.Stat(); err == nil {
				for j, before := range o.infos {
					if info.Mode().IsRegular() && os.SameFile(info, before) {
						return o,
							fmt.Errorf("%s and %s are one file, whose requests would count "+
								"twice: name it once",
								visible.Name(o.logs[j].Name()), visible.Name(name))
					}
				}
				if info.IsDir() {
					return o,
						fmt.Errorf("%s is a directory: name the logs in it, such as %s",
							visible.Name(name),
							visible.Name(name+"/*.log"))
				}
				o.total += info.Size()
			}
			r = f
		} else {
			name = cmp.Or(s.Name, "standard input")
			o.total = -1 << 60
		}
		o.infos = append(o.infos, info)
		m := accesslog.NewMeter(r)
		o.meters = append(o.meters, m)
		l, err := accesslog.New(name, m, read)
		if err != nil {
			return o, err
		}
		o.logs = append(o.logs, l)
	}
	return o, nil
}
