package xds

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-go/weir/internal/files/follow"
)

// state is a file with the last version that was taken, so that a process that starts while the
// server is away has limits.
type state string // its path; "": none is kept

// read returns what the file has, and when it was written; nil without an error if there is none.
func (s state) read() (*discovery.DiscoveryResponse, time.Time, error) {
	info, err := os.Stat(string(s))
	if s == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	text, err := follow.Read(string(s), maxState)
	if err == nil && len(text) > maxState {
		err = fmt.Errorf("%s: has more than %d bytes", s, maxState)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	r := new(discovery.DiscoveryResponse)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, r); err != nil {
		return nil, time.Time{}, fmt.Errorf("%s: is no state of weir: %w", s, err)
	}
	return r, info.ModTime(), nil
}

// maxState is how many bytes the file may have. JSON is several times as long as a message.
const maxState = 8 * maxMessage

// write replaces the file as a whole: a process that is killed leaves the old one or the new one.
func (s state) write(r *discovery.DiscoveryResponse) error {
	if s == "" {
		return nil
	}
	text, err := protojson.MarshalOptions{Multiline: true}.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(string(s)), filepath.Base(string(s))+".*") // for this user alone
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), string(s))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
