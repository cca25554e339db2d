"""What is put on modules that stay what they are: an earlier name of `distributed.fsdp.fully_shard`."""
