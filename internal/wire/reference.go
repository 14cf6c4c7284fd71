package wire

import "slices"

// reference are the extensions whose tables are data to look things up in. Others may keep there what is a secret, such
// as the connection strings of pglogical: who may read those, their own scripts and people say.
var reference = []string{
	"address_standardizer_data_us", "pointcloud", "postgis", "postgis_raster",
	"postgis_tiger_geocoder", "postgis_topology",
}

// Reference says that everybody in a database is to read the tables that an extension brings.
func Reference(extension string) bool { return slices.Contains(reference, extension) }
