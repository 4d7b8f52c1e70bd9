package watch

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

func TestTheStatusIsToldOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter)
		want   []int
	}{
		{"a status", func(w http.ResponseWriter) { w.WriteHeader(302) }, []int{302}},
		{"hints before it", func(w http.ResponseWriter) { w.WriteHeader(103); w.WriteHeader(302) }, []int{302}},
		{"a second status", func(w http.ResponseWriter) { w.WriteHeader(200); w.WriteHeader(302) }, []int{200}},
		{"none", func(w http.ResponseWriter) { w.Write([]byte("x")); w.WriteHeader(302) }, []int{200}},
		{"a flush", func(w http.ResponseWriter) { w.(http.Flusher).Flush(); w.WriteHeader(302) }, []int{200}},
		{"nothing", func(http.ResponseWriter) {}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var told []int
			recorder := httptest.NewRecorder()
			tt.answer(OnStatus(recorder, func(status int) { told = append(told, status) }))
			if !slices.Equal(told, tt.want) {
				t.Errorf("told %v, want %v", told, tt.want)
			}
		})
	}
}
