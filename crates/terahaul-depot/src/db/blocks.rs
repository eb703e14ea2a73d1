//! Durable blocks and what was computed from their bytes.

use std::collections::HashSet;

use futures_util::TryStreamExt;
use sqlx::QueryBuilder;
use terahaul_core::{BlockNumber, BlockProof, BlockRun, BlockSet, TransferId};

use super::{Database, Db, Pool, big};

/// Rows in one statement: three values each, far below every database's limit of values.
const ROWS: usize = 1000;

impl Database {
    /// Records durable blocks, each with its length, in one transaction. How many of the transfer's bytes are durable is counted by what this
    /// adds, as blocks are [given back](Self::forget_blocks) meanwhile.
    pub async fn record_blocks(
        &self,
        id: TransferId,
        proven: &[(BlockNumber, BlockProof, u64)],
    ) -> sqlx::Result<()> {
        let mut tx = self.write.begin().await?;
        let mut added = 0;
        for rows in proven.chunks(ROWS) {
            let mut insert = QueryBuilder::<Db>::new("INSERT INTO blocks (transfer, block, proof) ");
            insert.push_values(rows, |mut row, (block, proof, _)| {
                row.push_bind(id.0.to_vec()).push_bind(i64::from(block.0)).push_bind(proof.to_bytes());
            });
            // A group whose commit was not heard of is recorded again, with the same proofs.
            insert.push(" ON CONFLICT (transfer, block) DO NOTHING RETURNING block");
            let new: Vec<(i64,)> = insert.build_query_as().fetch_all(&mut *tx).await?;
            let new: HashSet<i64> = new.into_iter().map(|(block,)| block).collect();
            let new = rows.iter().filter(|(block, ..)| new.contains(&i64::from(block.0)));
            added += new.map(|(.., len)| len).sum::<u64>();
        }
        sqlx::query("UPDATE transfers SET durable_bytes = durable_bytes + $1 WHERE id = $2")
            .bind(big(added))
            .bind(&id.0[..])
            .execute(&mut *tx)
            .await?;
        tx.commit().await
    }

    /// Removes blocks that are not here any more, each of so many bytes, and keeps how many bytes will not be here then, in one transaction.
    /// What was removed before, by a request that was given up before it heard of that, is not counted once more.
    pub async fn forget_blocks(
        &self,
        id: TransferId,
        runs: &[BlockRun],
        len_of: impl Fn(BlockNumber) -> u64,
        void_bytes: u64,
    ) -> sqlx::Result<()> {
        let mut tx = self.write.begin().await?;
        let mut freed_bytes = 0;
        for run in runs {
            let first = i64::from(run.first.0);
            let end = first + i64::from(run.count);
            let sql = "DELETE FROM blocks WHERE transfer = $1 AND block >= $2 AND block < $3 RETURNING block";
            let delete = sqlx::query_as(sql).bind(&id.0[..]).bind(first).bind(end);
            let removed: Vec<(i64,)> = delete.fetch_all(&mut *tx).await?;
            freed_bytes += removed.into_iter().map(|(block,)| len_of(BlockNumber(block as u32))).sum::<u64>();
            let sql = "DELETE FROM checksums WHERE transfer = $1 AND block >= $2 AND block < $3";
            sqlx::query(sql).bind(&id.0[..]).bind(first).bind(end).execute(&mut *tx).await?;
        }
        sqlx::query(
            "UPDATE transfers SET durable_bytes = durable_bytes - $1, failed_bytes = $2 WHERE id = $3",
        )
        .bind(big(freed_bytes))
        .bind(big(void_bytes))
        .bind(&id.0[..])
        .execute(&mut *tx)
        .await?;
        tx.commit().await
    }

    /// The durable blocks of a transfer.
    pub async fn durable_blocks(&self, id: TransferId) -> sqlx::Result<BlockSet> {
        let mut rows =
            sqlx::query_as::<Db, (i64,)>("SELECT block FROM blocks WHERE transfer = $1 ORDER BY block")
                .bind(&id.0[..])
                .fetch(&self.read);
        let mut set = BlockSet::new();
        while let Some((block,)) = rows.try_next().await? {
            set.insert(BlockNumber(block as u32));
        }
        Ok(set)
    }

    /// The last of them.
    pub async fn last_block(&self, id: TransferId) -> sqlx::Result<Option<BlockNumber>> {
        let (last,): (Option<i64>,) = sqlx::query_as("SELECT MAX(block) FROM blocks WHERE transfer = $1")
            .bind(&id.0[..])
            .fetch_one(&self.read)
            .await?;
        Ok(last.map(|block| BlockNumber(block as u32)))
    }

    /// The stored proof of one block.
    pub async fn proof(&self, id: TransferId, block: BlockNumber) -> sqlx::Result<Option<Vec<u8>>> {
        let sql = "SELECT proof FROM blocks WHERE transfer = $1 AND block = $2";
        let row: Option<(Vec<u8>,)> =
            sqlx::query_as(sql).bind(&id.0[..]).bind(i64::from(block.0)).fetch_optional(&self.read).await?;
        Ok(row.map(|(proof,)| proof))
    }

    /// The stored proofs of `count` blocks from `first` on, in order; missing ones are left out.
    pub async fn proofs(
        &self,
        id: TransferId,
        first: BlockNumber,
        count: u32,
    ) -> sqlx::Result<Vec<(BlockNumber, Vec<u8>)>> {
        range(&self.read, "SELECT block, proof FROM blocks", id, first, count).await
    }

    /// Checksums of `count` blocks from `first` on, where they are known.
    pub async fn checksums(
        &self,
        id: TransferId,
        first: BlockNumber,
        count: u32,
    ) -> sqlx::Result<Vec<(BlockNumber, Vec<u8>)>> {
        range(&self.read, "SELECT block, crcs FROM checksums", id, first, count).await
    }

    /// Keeps checksums of blocks.
    pub async fn keep_checksums(&self, id: TransferId, crcs: &[(BlockNumber, Vec<u8>)]) -> sqlx::Result<()> {
        let mut tx = self.write.begin().await?;
        for rows in crcs.chunks(ROWS) {
            let mut insert = QueryBuilder::<Db>::new("INSERT INTO checksums (transfer, block, crcs) ");
            insert.push_values(rows, |mut row, (block, crcs)| {
                row.push_bind(id.0.to_vec()).push_bind(i64::from(block.0)).push_bind(crcs.clone());
            });
            insert.push(" ON CONFLICT (transfer, block) DO NOTHING");
            insert.build().execute(&mut *tx).await?;
        }
        tx.commit().await
    }
}

async fn range(
    pool: &Pool,
    select: &str,
    id: TransferId,
    first: BlockNumber,
    count: u32,
) -> sqlx::Result<Vec<(BlockNumber, Vec<u8>)>> {
    let sql = format!("{select} WHERE transfer = $1 AND block >= $2 AND block < $3 ORDER BY block");
    let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(&sql)
        .bind(&id.0[..])
        .bind(i64::from(first.0))
        .bind(i64::from(first.0) + i64::from(count))
        .fetch_all(pool)
        .await?;
    Ok(rows.into_iter().map(|(block, bytes)| (BlockNumber(block as u32), bytes)).collect())
}

#[cfg(test)]
mod tests {
    use terahaul_core::Hash;

    use super::*;
    use crate::fixture::Fixture;

    #[tokio::test]
    async fn durable_bytes_are_those_of_the_blocks_that_are_recorded_whatever_was_given_back_meanwhile() {
        let fixture = Fixture::new().await;
        let id = fixture.transfer().await;
        let db = &fixture.depot.inner.db;
        let block = |number, len| (BlockNumber(number), BlockProof::Piece(Hash([1; 32])), len);
        let durable = async || db.transfer(id).await.unwrap().unwrap().durable_bytes;
        db.record_blocks(id, &[block(0, 70), block(1, 5)]).await.unwrap();
        assert_eq!(durable().await, 75);
        // The second time by a request that came behind one that had been given up.
        for _ in 0..2 {
            let first = BlockRun { first: BlockNumber(0), count: 1 };
            db.forget_blocks(id, &[first], |_| 70, 70).await.unwrap();
            assert_eq!(durable().await, 5);
        }
        db.record_blocks(id, &[block(1, 5), block(2, 100)]).await.unwrap();
        assert_eq!(durable().await, 105, "the block that is recorded again counts once");
    }
}
