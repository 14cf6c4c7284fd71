package draft

import (
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
)

// settingsInForce are the settings that count as the wanted ones: those with the record of the first initialisation,
// and the same without it. The record only forbids what an instance with data does not do anyway, and a mounted file
// can take a minute to arrive.
func settingsInForce(design database.Design) []string {
	wanted := render.Settings(design).Hash()
	design.Record = database.Record{}
	return []string{wanted, render.Settings(design).Hash()}
}
