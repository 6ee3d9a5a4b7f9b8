package child_test

import (
	"fmt"

	"github.com/harpagon/harpagon/executors/child"
	"github.com/harpagon/harpagon/executors/gorgonia"
)

// The main of a program that runs networks in child processes.
func Example() {
	if child.Requested() {
		child.Serve(gorgonia.New()) // does not return
	}
	engine := child.New(gorgonia.Name, child.Options{})
	fmt.Println(engine.Name())
	// Output: gorgonia
}
