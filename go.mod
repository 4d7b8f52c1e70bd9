module github.com/weir-go/weir

go 1.25.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/dunglas/httpsfv v1.1.2
	github.com/google/go-cmp v0.7.0
)
