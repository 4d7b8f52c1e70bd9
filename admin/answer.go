package admin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/http/operator"
)

// maxBody is the largest content of a request.
const maxBody = 64 << 10

// failure tells the sender why a request failed.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

// handle decodes the content of r, calls f, and answers with its result.
func handle[Q, A any](w http.ResponseWriter, r *http.Request, f func(*http.Request, Q) (A, error)) {
	handleAs(w, r, Person{}, func(r *http.Request, _ Person, q Q) (A, error) { return f(r, q) })
}

// handleAs is handle for changes by a person.
func handleAs[Q, A any](
	w http.ResponseWriter, r *http.Request, person Person,
	f func(*http.Request, Person, Q) (A, error),
) {
	var q Q
	if !decode(w, r, &q) {
		return
	}
	a, err := f(r, person, q)
	if err != nil {
		refuseFor(w, err)
		return
	}
	answer(w, a)
}

// decode reads the content of r into q. If it cannot, it refuses r, and returns false.
func decode(w http.ResponseWriter, r *http.Request, q any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(q)
	if err == nil {
		if _, err = decoder.Token(); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			err = errors.New("there is more than one JSON value")
		}
	}
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			refuse(w, http.StatusRequestEntityTooLarge, "the content is too large")
			return false
		}
		refuse(w, http.StatusBadRequest, "the content is not what this needs: "+err.Error())
		return false
	}
	return true
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, v any) { answerWith(w, http.StatusOK, v) }

// answerWith writes v as JSON with a status.
func answerWith(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the answer cannot be written")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(text)
}

// refuseFor answers with the reason of an error.
func refuseFor(w http.ResponseWriter, err error) {
	status := http.StatusUnprocessableEntity
	if known, ok := errors.AsType[*failure](err); ok {
		status = known.status
	}
	refuse(w, status, err.Error())
}

// refuse answers with a status and the reason, as a problem document.
func refuse(w http.ResponseWriter, status int, why string) {
	why = strings.ToValidUTF8(why, "\uFFFD")
	text, _ := json.Marshal(operator.Refusal{
		Title: http.StatusText(status), Status: status, Detail: why, Error: why,
	})
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	w.Write(text)
}

// view is an answer that is the same for all pages. It is computed at most every viewLasts, so a
// hundred open pages cost about as much as one.
type view struct {
	make func(now time.Time) any

	mu   sync.Mutex
	made time.Time
	text []byte
}

const viewLasts = 500 * time.Millisecond

func (v *view) serve(w http.ResponseWriter) {
	text, err := v.read()
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the answer cannot be written")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

func (v *view) read() ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if v.text == nil || now.Sub(v.made) >= viewLasts {
		text, err := json.Marshal(v.make(now))
		if err != nil {
			return nil, err
		}
		v.made, v.text = now, text
	}
	return v.text, nil
}

// forget makes the next read compute the answer again.
func (v *view) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.text = nil
}
