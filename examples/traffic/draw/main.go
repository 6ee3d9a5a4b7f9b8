// Command draw writes the example's pictures, and the truth about them, from
// seeds that no network was trained on:
//
//	go run ./examples/traffic/draw
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/harpagon/harpagon/examples/traffic/scene"
)

// The pictures' seeds; the accuracy test draws others.
const (
	first = 5_000_000
	count = 24
)

func main() {
	log.SetFlags(0)
	folder := filepath.Join("examples", "traffic", "scenes")
	truth := map[string][]scene.Object{}
	for i := range count {
		s := scene.Draw(uint64(first + i))
		name := fmt.Sprintf("scene-%02d.png", i+1)
		var b bytes.Buffer
		if err := s.WritePNG(&b); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), b.Bytes(), 0o644); err != nil {
			log.Fatal(err)
		}
		truth[name] = s.Objects
	}
	raw, err := json.MarshalIndent(truth, "", " ")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "truth.json"), append(raw, '\n'), 0o644); err != nil {
		log.Fatal(err)
	}
}
