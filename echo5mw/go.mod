module github.com/weir-go/weir/echo5mw

go 1.26.0

require (
	github.com/labstack/echo/v5 v5.4.3
	github.com/weir-go/weir v0.0.0
)

require (
	github.com/google/go-cmp v0.5.5 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/time v0.15.0 // indirect
)

replace github.com/weir-go/weir => ..
