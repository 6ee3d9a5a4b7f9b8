package page

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"golang.org/x/image/font"
)

// words that lines are made of.
func words() []string {
	return strings.Fields(`harbour window letter seven bridge copper garden market silver paper mountain
		Winter Station Morning Ticket Number Order Museum Library Office Kitchen
		river orange simple travel engine summer pocket mirror candle planet
		quick brown jacket zebra violin oxygen puzzle winding yellow queen
		total amount receipt service account balance street north south delivery
		Open Monday Tuesday Friday Weekend Parking Platform Entrance Exit Floor`)
}

// phrase is a line of words and numbers that fits the width in pixels.
func phrase(rng *rand.Rand, face font.Face, width int) string {
	all := words()
	var line []string
	most := 1 + rng.IntN(5)
	for range most {
		next := all[rng.IntN(len(all))]
		switch rng.IntN(6) {
		case 0:
			next = fmt.Sprint(10 + rng.IntN(9990))
		case 1:
			next = fmt.Sprintf("%d.%02d", 1+rng.IntN(400), rng.IntN(100))
		}
		longer := strings.Join(append(line[:len(line):len(line)], next), " ")
		if len(line) > 0 && font.MeasureString(face, longer).Ceil() > width-10 {
			break
		}
		line = append(line, next)
	}
	return strings.Join(line, " ")
}
