module kcoord.test/trips

go 1.26.0
