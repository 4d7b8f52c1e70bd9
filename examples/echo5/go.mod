module github.com/weir-go/weir/examples/echo5

go 1.26.0

require (
	github.com/labstack/echo/v5 v5.4.3
	github.com/weir-go/weir v0.0.0
	github.com/weir-go/weir/echo5mw v0.0.0
)

replace (
	github.com/weir-go/weir => ../..
	github.com/weir-go/weir/echo5mw => ../../echo5mw
)
