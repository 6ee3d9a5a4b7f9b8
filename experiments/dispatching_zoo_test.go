package experiments

import (
	"encoding/csv"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheExampleServesThePapersNetworks: the list of examples/cluster/zoo is the paper's
// table 6.
func TestTheExampleServesThePapersNetworks(t *testing.T) {
	f, err := os.Open("../examples/cluster/zoo/networks.csv")
	require.NoError(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	var list []Network
	for _, row := range rows[1:] {
		var n [3]float64
		for i := range n {
			n[i], err = strconv.ParseFloat(row[i+1], 64)
			require.NoError(t, err)
		}
		list = append(list, Network{row[0], n[0], n[1], n[2]})
	}
	assert.Equal(t, a100(), list)
}
