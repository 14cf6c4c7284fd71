package session

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// FirstRow asks on a connection of replication, and returns the first row of the answer.
func FirstRow(ctx context.Context, connection *pgconn.PgConn, command string, columns int) ([]string, error) {
	results, err := connection.Exec(ctx, command).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err) // With the state that it was refused with.
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < columns {
		return nil, fmt.Errorf("%s: an answer of another form", command)
	}
	var row []string
	for _, value := range results[0].Rows[0] {
		row = append(row, string(value))
	}
	return row, nil
}
